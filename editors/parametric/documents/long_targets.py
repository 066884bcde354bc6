"""Prompts and targets of edits with long target texts."""

from collections.abc import Iterator, Sequence

from emend.agents.local.causal_lm import CausalLM
from emend.agents.local.prefixes import Ids
from emend.editors.numerics.training.window_search import LongTarget
from emend.editors.parametric.finetune import build_own_prompt, target_row
from emend.memory.edit import Edit
from emend.memory.errors import BadData

# Maximum number of tokens of a document's first line that counts as its title.
TITLE = 24
# Number of tokens that form the prompt of a document without a title; at most half of the document.
LEAD = 8


def long_targets(lm: CausalLM, edits: Sequence[Edit], wording: str) -> list[LongTarget]:
    """Return the prompts and targets of edits.

    With a prompt or a question, as in UnKEBench and AKEW, the target is `target_new`, or else the
    edit's text. The prompt of a bare document is its title (a short first line followed by others)
    or else its lead, and the target is the rest. A document longer than the model's window is split
    into pieces, each with its own lead. As in the published code, an end token follows the target,
    so that the model learns to stop there.

    Raises:
        BadData: an edit has no target or text, or one of too few tokens.
        ContextOverflow: the target of a question does not fit the model's window.
    """
    return [target for edit in edits for target in _targets_of(lm, edit, wording)]


def _targets_of(lm: CausalLM, edit: Edit, wording: str) -> Iterator[LongTarget]:
    if edit.prompt or edit.question:
        target = edit if edit.target_new else edit.model_copy(update={"target_new": edit.text})
        row = target_row(lm, target, build_own_prompt(edit, wording))
        yield LongTarget(edit, _ended(lm, row.ids), row.start)
        return
    pieces = list(_pieces(lm, edit.text.strip()))
    if not pieces:
        raise BadData(
            f"the text of edit '{edit.id}', {edit.text[:60]!r}, has fewer than two tokens: it "
            "cannot be split into prompt and target."
        )
    for number, (ids, start) in enumerate(pieces, 1):
        yield LongTarget(edit, _ended(lm, ids) if number == len(pieces) else ids, start)


def _pieces(lm: CausalLM, text: str) -> Iterator[tuple[Ids, int]]:
    """Yield a document's token ids in window-sized pieces, with the start of each target."""
    begin = lm.encode("")[:1]
    ids = lm.encode(text)
    begins = ids[:1] == begin
    head, tokens = (begin, ids[1:]) if begins else ((), ids)
    title, _, body = text.partition("\n")
    lead = len(lm.encode(f"{title}\n")) - begins if body.strip() else 0
    size = (lm.window or len(ids)) - len(head)
    for start in range(0, len(tokens), size):
        piece = tokens[start : start + size]
        prompt = min(LEAD, len(piece) // 2)
        if not start and 0 < lead <= TITLE and lead < len(piece):
            prompt = lead
        if prompt:
            yield head + piece, len(head) + prompt


def _ended(lm: CausalLM, ids: Ids) -> Ids:
    """Append the end token if the tokenizer has one and the window has room.

    The last token is never fed, so that ids may exceed the window by one.
    """
    end = lm.tokenizer.eos_token_id
    return ids if end is None or (lm.window and len(ids) > lm.window) else (*ids, end)
