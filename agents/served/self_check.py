"""Check of a server's log-probabilities: two request formats must agree, regardless of the order of
the prompts.
"""

from collections.abc import Callable, Sequence

from emend.agents.local.prefixes import Encoded
from emend.agents.local.token_ids import Encoder
from emend.agents.served.forms import Rows, ScoreForm
from emend.memory.errors import ContextOverflow, ModelError, ModelReplyError, RequestRefused
from emend.memory.redaction import hide_keys

SAMPLE = "The capital of France is Paris, and the capital of Italy is Rome."
TOKENS = 12
# Tolerance, absolute and relative: half precision differs by less, a wrong token by far more.
TOLERANCE = 0.1

Scores = list[list[float]]
Ask = Callable[[ScoreForm, Rows], Scores]


def choose_form(
    ask: Ask, forms: Sequence[ScoreForm], encoder: Encoder
) -> tuple[ScoreForm | None, str]:
    """Return the most preferred format that agrees with another one; if there is none, None and the
    reason.

    Raises:
        ModelUnreachable: the server does not answer; also other errors that do not depend on the
            format.
    """
    rows = check_rows(encoder)
    usable: list[tuple[ScoreForm, Scores]] = []
    problems = []
    for form in forms:
        try:
            scores = ask(form, rows)
            turned = ask(form, rows[::-1])[::-1]
        except (ContextOverflow, ModelReplyError, RequestRefused) as error:
            problems.append(f"{form.name}: {hide_keys(str(error)).rstrip('.')}")
            continue
        if not agree(scores, turned):
            problems.append(
                f"{form.name}: the log-probabilities of the same prompts change with their order"
            )
            continue
        if any(agree(scores, others) for _, others in usable):
            return next(first for first, others in usable if agree(scores, others)), ""
        usable.append((form, scores))
    if len(usable) > 1:
        problems.append(
            f"{' and '.join(form.name for form, _ in usable)}: their log-probabilities differ"
        )
    elif usable:
        problems.append(f"{usable[0][0].name}: no second form confirms its log-probabilities")
    return None, "; ".join(problems)


def check_rows(encoder: Encoder) -> list[Encoded]:
    """Return three prompts of a dozen tokens, two of them with equal length.

    Raises:
        ModelError: the tokenizer gives too few tokens.
    """
    ids = encoder.text(SAMPLE)[: TOKENS + 1]
    if len(ids) < 4:
        raise ModelError(
            f"a sentence has {len(ids)} tokens by this tokenizer: check model.tokenizer."
        )
    lead, rest = ids[:1], ids[1:]
    rows = (ids, lead + rest[::-1], lead + rest[1:])
    return [Encoded(row, 1 if number < 2 else 2, 0) for number, row in enumerate(rows)]


def agree(scores: Scores, others: Scores) -> bool:
    """Return whether two results are equal within the tolerance."""
    pairs = [pair for row in zip(scores, others, strict=True) for pair in zip(*row, strict=True)]
    return all(abs(first - second) <= TOLERANCE * (1 + abs(first)) for first, second in pairs)
