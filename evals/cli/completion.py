"""Shell completion of values such as names of editors, benchmarks and models."""

from collections.abc import Callable, Iterator

Completer = Callable[[str], list[tuple[str, str]]]
# Name of the list in `emend list` with the values of a configuration field.
LISTS_OF_FIELDS = {
    "editors": "editors",
    "editor": "editors",
    "benchmark": "benchmarks",
    "retriever": "retrievers",
    "strategies": "retrievers",
    "systems": "systems",
    "kind": "judges",
    "kinds": "judges",
    "model": "models",
    "models": "models",
    "judge": "models",
    "judges": "models",
}
MODELS, EMBEDDED = "models", "tiny"


def completion_of(field: str) -> Completer | None:
    """Return the completer of a configuration field's values; None for free texts and numbers."""
    name = LISTS_OF_FIELDS.get(field)
    if name is None:
        return None
    # typer requires a function of one argument
    return lambda incomplete: complete(name, incomplete)


def complete(list_name: str, incomplete: str) -> list[tuple[str, str]]:
    """Return the entries of a list that start with a text, each with its summary."""
    return [row for row in _names(list_name) if row[0].startswith(incomplete)]


def _names(list_name: str) -> Iterator[tuple[str, str]]:
    from emend.agents.gguf.catalogue import CATALOGUE
    from emend.evals.show.lists import registry_of

    whole_models = {EMBEDDED, *CATALOGUE}
    for row in registry_of(list_name).rows():
        name = row["name"]
        if list_name == MODELS and name not in whole_models:
            name += ":"  # a provider, followed by a model's name
        yield name, row["summary"]
