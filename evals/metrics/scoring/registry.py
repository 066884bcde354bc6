"""Registry of scorers: built-in ones, those of installed packages, and `module:attribute`."""

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any, get_args

from emend.evals.metrics.scoring.base import Need, Output, Scorer
from emend.memory.errors import BadSettings
from emend.memory.registry import Registry, nearest


class ScorerRegistry(Registry[Any]):
    """The registry of scorers, with each scorer's needs in its rows."""

    def rows(self) -> Iterator[dict[str, str]]:
        """Name, needs and summary of each scorer; a plug-in that cannot be loaded has no needs."""
        for row in super().rows():
            try:
                needs = ", ".join(scorer_of(row["name"]).needs)
            except BadSettings:
                needs = ""
            yield {"name": row["name"], "needs": needs, "summary": row["summary"]}


SCORERS = ScorerRegistry(
    kind="scorer",
    group="emend.scorers",
    interfaces=(("score", "outputs", "needs"),),
    beside=__file__,
)
# The scorer whose name may have a band, as in `equivalence:0.1`.
BANDED = "equivalence"


@cache
def _own_scorer(name: str) -> Scorer:
    base, colon, band = name.partition(":")
    scorer: Scorer = SCORERS.load(base)(*(band,) if colon else ())
    return scorer


@cache
def _made(component: Any) -> Any:
    if isinstance(component, type):
        return component()
    return component


def is_own(name: str) -> bool:
    """Return whether a name, possibly with a band, is a built-in scorer."""
    base, colon, _ = name.partition(":")
    return name in SCORERS.builtin or (bool(colon) and base == BANDED)


def scorer_of(name: str) -> Scorer:
    """Return the scorer of that name; `equivalence:0.1` leaves answers within 0.1 of its threshold
    unscored.

    Raises:
        BadSettings: the name is unknown or not trusted, or the object is not a scorer.
    """
    if is_own(name):
        return _own_scorer(name)
    component = SCORERS.load(name)
    with SCORERS.plugin_errors(name):
        scorer = _made(component)
    if not isinstance(scorer, Scorer):
        raise BadSettings(
            f"scorer '{name}' is not an emend.extend.Scorer: derive a class from it that has "
            "`outputs` and `score(probe, answer, before)`; see docs/how-to/extend.md."
        )
    return scorer


@cache
def own_scorers() -> dict[str, Scorer]:
    """Return the built-in scorers by name."""
    return {name: _own_scorer(name) for name in SCORERS.builtin}


@cache
def own_outputs() -> dict[str, Output]:
    """Return the outputs of the built-in scorers by name; the first for a shared name."""
    outputs: dict[str, Output] = {}
    for scorer in own_scorers().values():
        for output in scorer.outputs:
            outputs.setdefault(output.name, output)
    return outputs


def check_scorers(names: Iterable[str]) -> None:
    """Load the scorers of these names, and check that plug-ins declare their outputs.

    Raises:
        BadSettings: a scorer is unknown, not a scorer, has no outputs, or reuses another's output
            name.
    """
    owners: dict[str, str] = {}
    for name in dict.fromkeys(names):
        scorer = scorer_of(name)
        if not is_own(name):
            _check_outputs(name, scorer, owners)


def _check_outputs(name: str, scorer: Scorer, owners: dict[str, str]) -> None:
    outputs = getattr(scorer, "outputs", ())
    if not outputs or not all(isinstance(output, Output) for output in outputs):
        raise BadSettings(f"scorer '{name}' has no outputs: give a tuple of emend.extend.Output.")
    unknown = [need for need in scorer.needs if need not in get_args(Need)]
    if unknown:
        raise BadSettings(
            f"scorer '{name}' needs {unknown[0]!r}: {nearest(str(unknown[0]), [*get_args(Need)])}"
        )
    for output in outputs:
        owner = owners.setdefault(output.name, name)
        if output.name in own_outputs() or owner != name:
            if output.name in own_outputs():
                other = "a built-in scorer"
            else:
                other = f"'{owner}'"
            raise BadSettings(
                f"scorer '{name}' has the output '{output.name}', which {other} also has: rename "
                "it."
            )
