"""Token positions of an edit's subject and target in the prompts that it is solved on."""

from collections.abc import Sequence
from typing import Literal, NamedTuple

from emend.agents.local.causal_lm import CausalLM
from emend.editors.numerics.contexts import BARE
from emend.memory.edit import Edit
from emend.memory.errors import BadData, BadSettings, ContextOverflow

# The token at which a value is written: the subject's last or the prompt's last, as in ROME's code.
#
# `auto` is the subject's last token, except if that is the very first token of the cloze, without a
# begin token in front: keys at first tokens are nearly equal in all texts, so that a change there
# would affect every text.
FactToken = Literal["auto", "subject_last", "last"]


class Located(NamedTuple):
    """Token ids of a prompt, the edited token's position, and the start of the target."""

    ids: tuple[int, ...]
    subject: int
    target: int


def locate(
    lm: CausalLM, edit: Edit, prefixes: Sequence[str], fact_token: FactToken = "auto"
) -> list[Located]:
    """Return token ids and positions of the edit's cloze and target after each prefix.

    A prefix includes its trailing white space. The subject is found by its character offset, so
    repeated subjects and braces in a prompt are safe. If the subject's last letters share a token
    with the following text, that token counts as the subject's last.

    Raises:
        BadData: the prompt has no placeholder for the subject, there is no target, or the target
            shares a token with the subject.
        BadSettings: the tokenizer gives no offsets.
    """
    if not edit.subject.strip() or edit.prompt.count("{}") != 1 or not edit.target_new.strip():
        raise BadData(
            f"edit '{edit.id}' cannot be written at its subject: subject {edit.subject!r}, prompt "
            f"{edit.prompt!r}, target_new {edit.target_new!r}. Give all three, the prompt with one "
            "{} in the subject's place."
        )
    end = edit.prompt.index("{}") + len(edit.subject.rstrip())
    try:
        rows = [
            _located(lm, prefix + edit.cloze, len(prefix) + end, edit.target_new)
            for prefix in prefixes
        ]
    except (BadData, ContextOverflow) as error:
        raise type(error)(f"edit '{edit.id}': {error}") from error
    if resolve_fact_token(lm, edit, fact_token) == "last":
        return [row._replace(subject=row.target - 1) for row in rows]
    return rows


def subject_tokens(lm: CausalLM, edit: Edit) -> tuple[tuple[int, ...], range]:
    """Return the token ids of an edit's cloze, and the positions of the subject's tokens.

    Raises:
        BadData: the prompt has no placeholder for the subject.
        BadSettings: the tokenizer gives no offsets.
    """
    if not edit.subject.strip() or edit.prompt.count("{}") != 1:
        raise BadData(
            f"edit '{edit.id}' has no subject in its prompt: {edit.subject!r}, "
            f"{edit.prompt!r}. Give both."
        )
    text, start = edit.cloze, edit.prompt.index("{}")
    ids = lm.encode(text)
    first = _token_place(lm, text, start + 1, ids)
    return ids, range(first, _token_place(lm, text, start + len(edit.subject.rstrip()), ids) + 1)


def resolve_fact_token(lm: CausalLM, edit: Edit, fact_token: FactToken) -> FactToken:
    """Return the token that `auto` stands for, see `FactToken`; other values stay the same."""
    if fact_token != "auto":
        return fact_token
    (row,) = locate(lm, edit, BARE, "subject_last")
    return "last" if row.subject == 0 else "subject_last"


def locate_essence(lm: CausalLM, edit: Edit, fact_token: FactToken = "auto") -> Located:
    """Return the prompt "<subject> is a", at whose subject predictions must not change.

    It is the essence prompt of ROME (Meng et al. 2022, eq. 4).
    """
    subject = edit.subject.rstrip()
    ids = lm.encode(f"{subject} is a")
    if resolve_fact_token(lm, edit, fact_token) == "last":
        return Located(ids, len(ids) - 1, len(ids))
    return Located(ids, _token_place(lm, f"{subject} is a", len(subject), ids), len(ids))


def _located(lm: CausalLM, text: str, end: int, target: str) -> Located:
    pair = lm.encode_pair(text, target)
    if pair.cut:
        raise BadData(
            f"prompt {text[:60]!r} and target {target!r} are {pair.cut} tokens too long for the "
            "model."
        )
    place = _token_place(lm, text, end, lm.encode(text))
    if place >= pair.start:
        raise BadData(
            f"the end of the subject in {text!r} is merged into one token with the target "
            f"{target!r}: give a prompt that continues after the subject."
        )
    return Located(pair.ids, place, pair.start)


def _token_place(lm: CausalLM, text: str, end: int, ids: Sequence[int]) -> int:
    """Return the position of the last token with a character before the character offset `end`."""
    if not lm.tokenizer.is_fast:
        raise BadSettings(
            f"the tokenizer {type(lm.tokenizer).__name__} returns no offsets of its tokens in a "
            "text: save the model with a fast tokenizer (tokenizer.json)."
        )
    offsets = lm.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True)[
        "offset_mapping"
    ]
    inside = [place for place, (start, stop) in enumerate(offsets) if start < end and stop > start]
    return max(inside) + len(ids) - len(offsets)
