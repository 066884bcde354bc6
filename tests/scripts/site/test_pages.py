"""Pages of the documentation site that are generated, and links that lead out of `docs/`."""

import emend
from emend.evals.cli.main import COMMANDS, old_names
from emend.evals.construction.paper_steps import paper_recipes
from scripts.site.pages import api_page, commands_page, paper_steps_page, rewrite_links


def test_links_within_the_documentation_are_relative_to_their_page() -> None:
    readme = rewrite_links("[how](docs/how-to/runs.md#resume)", "README.md", None)
    assert readme == "[how](how-to/runs.md#resume)"
    assert rewrite_links("![a](../demo.svg)", "docs/how-to/a.md", None) == "![a](../demo.svg)"
    assert rewrite_links("[start](../../README.md)", "docs/how-to/a.md", None) == "[start](../index.md)"


def test_a_link_to_a_source_file_leads_into_the_repository_where_its_address_is_set() -> None:
    line = "see [`rag.py`](../../graphs/rag.py)"
    address = "https://example.org/emend"
    assert rewrite_links(line, "docs/how-to/a.md", None) == "see `rag.py`"
    linked = rewrite_links(line, "docs/how-to/a.md", address)
    assert linked == "see [`rag.py`](https://example.org/emend/blob/main/graphs/rag.py)"
    assert rewrite_links("[the rules](../SECURITY.md)", "docs/a.md", None) == "the rules (`SECURITY.md`)"


def test_addresses_and_anchors_stay() -> None:
    for line in ("[a](https://example.org/x.md)", "[b](#rules)"):
        assert rewrite_links(line, "docs/a.md", "https://example.org") == line


def test_every_command_and_every_public_name_has_an_entry() -> None:
    commands, api = commands_page(), api_page()
    current = set(COMMANDS.names()) - set(old_names())
    assert [name for name in current if f"### emend {name}\n" not in commands] == []
    public = set(emend.__all__) - {"__version__"}
    assert [name for name in public if f"heading: emend.{name}\n" not in api] == []


def test_every_step_of_a_paper_has_a_row() -> None:
    page = paper_steps_page()
    steps = [step for recipe in paper_recipes().values() for step in recipe.steps]
    assert len(steps) == page.count("\n| ") - 2
    assert [step.step for step in steps if step.step not in page] == []
