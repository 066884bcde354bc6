"""The shell completes names of editors, benchmarks, models and their like."""

import pytest

from emend.evals.cli.completion import LISTS_OF_FIELDS, complete, completion_of
from emend.evals.cli.main import load_command


@pytest.mark.parametrize(
    ("list_name", "typed", "names"),
    [
        ("editors", "ro", ["rome"]),
        ("benchmarks", "re", ["recoe"]),
        ("retrievers", "bm", ["bm25"]),
        ("models", "ti", ["tiny"]),
        ("models", "open", ["openai:"]),
        ("models", "smol", ["smollm2"]),
        ("editors", "nobody", []),
    ],
)
def test_names_that_begin_so_are_offered_with_their_summaries(list_name: str, typed: str, names: list[str]) -> None:
    offered = complete(list_name, typed)
    assert [name for name, _ in offered] == names and all(summary for _, summary in offered)


def test_fields_of_free_text_have_no_completion() -> None:
    assert completion_of("limit") is None
    assert all(completion_of(field) for field in LISTS_OF_FIELDS)


def test_options_of_a_run_are_completed() -> None:
    completed = {each.name: each for each in load_command("run").params}
    for name, typed, value in (("editors", "ser", "serac"), ("benchmark", "ak", "akew"), ("model", "ti", "tiny")):
        assert [item.value for item in completed[name].shell_complete(None, typed)] == [value]
