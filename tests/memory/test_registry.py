import sys

import pytest

from emend.memory.errors import BadSettings
from emend.memory.registry import Registry, nearest, summary_of, trust_names

PLUGIN = '''
class Shout:
    """Answers in capitals.

    More about it."""
    class Inner: ...
'''


@pytest.fixture
def registry() -> Registry:
    return Registry(
        "codec", "emend.test_codecs", {"json": ("json:dumps", "JSON text."), "repr": ("builtins:repr", "R.")}
    )


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """A plug-in package as pip would install it: a module, and metadata with entry points."""
    module = f"emend_plugin_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(PLUGIN, "utf-8")
    info = tmp_path / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
    points = f"shout = {module}:Shout\nbroken = {module}:Missing\njson = {module}:Shout\n"
    (info / "entry_points.txt").write_text(f"[emend.test_codecs]\n{points}", "utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield module
    sys.modules.pop(module, None)


def test_a_built_in_part_is_found_by_name_and_an_unknown_one_refused_with_the_nearest(registry):
    assert registry.load("json")([1]) == "[1]"
    assert registry.names() == ["json", "repr"]
    with pytest.raises(BadSettings, match=r"unknown codec 'jsn': did you mean 'json'\?"):
        registry.load("jsn")
    with pytest.raises(BadSettings, match="unknown codec 'zzzzzz': known: json, repr"):
        registry.load("zzzzzz")
    assert nearest("zzzzzz", ["b", "a"]) == "known: a, b."
    assert nearest("nowhere", ["knowedit", "knowledge"]) == "known: knowedit, knowledge."


def test_parts_are_found_by_attribute_and_entry_point_but_not_under_a_built_in_name(registry, installed):
    trust_names([f"{installed}:Shout", f"{installed}:Shout.Inner"])
    assert registry.load(f"{installed}:Shout").__name__ == "Shout"
    assert registry.load(f"{installed}:Shout.Inner").__name__ == "Inner"
    assert registry.load("shout").__name__ == "Shout"
    assert registry.names() == ["json", "repr", "shout", "broken"]
    assert registry.load("json").__name__ == "dumps"


@pytest.mark.parametrize("path", ["no_such_module_x:thing", "json:no_such_thing", "json:"])
def test_a_missing_module_or_attribute_is_refused(registry, path):
    trust_names([path])
    with pytest.raises(BadSettings, match="cannot be loaded: .* correct the module:attribute"):
        registry.load(path)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("raise RuntimeError('no luck')", "RuntimeError: no luck"),
        ("def (:", "SyntaxError"),
        ("exit(0)", "SystemExit: 0"),
    ],
)
def test_a_module_that_fails_or_ends_the_process_is_named(content, problem, registry, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "failing_module_x.py").write_text(content)
    trust_names(["failing_module_x:thing"])
    with pytest.raises(BadSettings, match=f"failing_module_x:thing' cannot be loaded: .*{problem}"):
        registry.load("failing_module_x:thing")
    with pytest.raises(BadSettings, match="cannot be created or used .SystemExit: 0"), registry.plugin_errors("x:y"):
        sys.exit(0)


def test_an_installed_part_needs_no_trust_and_its_place_by_name_does(registry, installed):
    assert registry.load("shout").__name__ == "Shout"
    with pytest.raises(BadSettings, match=f"--trust {installed}:Shout"):
        registry.load(f"{installed}:Shout")


def test_a_broken_plugin_is_refused_on_load_and_listed_as_broken(registry, installed):
    with pytest.raises(BadSettings, match="codec 'broken' cannot be loaded"):
        registry.load("broken")
    rows = {row["name"]: row["summary"] for row in registry.rows()}
    assert rows["shout"] == "Answers in capitals."
    assert rows["json"] == "JSON text."
    assert rows["broken"].startswith("broken: ")


def test_listing_built_in_parts_imports_none():
    registry: Registry[object] = Registry("part", "emend.test_nothing", {"a": ("no_such_module_x:a", "A part.")})
    assert list(registry.rows()) == [{"name": "a", "summary": "A part."}]


def test_a_part_that_is_an_object_says_by_itself_what_it_is():
    class Kind:
        """Any kind."""

        summary = ""

    kind = Kind()
    assert summary_of(kind) == "Any kind."
    kind.summary = "Headlines of\nfacts."
    assert summary_of(kind) == "Headlines of facts."
