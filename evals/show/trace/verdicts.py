"""Verdicts on answers: the deciding scores, and conditions on the verdicts of editors."""

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from emend.evals.case import Metric
from emend.evals.metrics.protocols import CONTAINS, PROTOCOLS
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest

Verdict = Literal["right", "wrong", "unscored"]
VERDICTS: list[str] = ["right", "wrong", "unscored"]


def check_name(problem: str, name: str | None, existing: Sequence[str]) -> None:
    """Check that a name given by a user exists; None is accepted.

    Raises:
        BadSettings: the name is unknown; the message has the problem and the nearest name.
    """
    if name is not None and name not in existing:
        raise BadSettings(f"{problem} '{name}': {nearest(name, list(existing))}")


def parse_where(text: str | None, existing: Sequence[str]) -> dict[str, Verdict] | None:
    """Parse a condition such as `rag right, mello wrong` into verdicts by editor; None for None.

    Raises:
        BadSettings: the text is malformed, or names an editor that the run does not have.
    """
    if text is None:
        return None
    verdicts: dict[str, Verdict] = {}
    for part in text.split(","):
        editor, _, verdict = part.strip().rpartition(" ")
        if not editor or verdict not in VERDICTS:
            raise BadSettings(
                f"--where '{text[:60]}': write editors and right, wrong or unscored: 'rag "
                "right, ike wrong'."
            )
        check_name("the run has no editor", editor.strip(), existing)
        verdicts[editor.strip()] = cast("Verdict", verdict)
    return verdicts


def deciding_scores(metrics: Sequence[Metric], kind: str) -> tuple[str, ...]:
    """Return the names of the scores that decide if an answer to a kind of probe is right.

    The first of them that an answer has is used. `contains` comes first if the run has it besides
    the papers' match, because it reads an answer as a person would.
    """
    names = [
        metric.value for metric in metrics if metric.share and kind in (metric.kinds or (kind,))
    ]
    return tuple(sorted(names, key=lambda name: name != PROTOCOLS[CONTAINS].value))


def verdict_and_score(
    names: Sequence[str], values: Mapping[str, float], unscored: Mapping[str, str]
) -> tuple[Verdict, str]:
    """Return the verdict and the deciding score as text; `names` are from `deciding_scores`."""
    name = next((name for name in names if name in values or name in unscored), "")
    if name in values:
        verdict: Verdict = "wrong"
        if values[name] >= 1:
            verdict = "right"
        return verdict, f"{name}={values[name]:g}"
    return "unscored", unscored.get(name, "no score")
