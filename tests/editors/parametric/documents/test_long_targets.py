"""What of an edit is the prompt, and what the target."""

import pytest

from emend.editors.parametric.documents.long_targets import LEAD, long_targets
from emend.memory.edit import Edit
from emend.memory.errors import ContextOverflow

TEXT = "The river Tamsin is long. It rains in Ostrim."


def parts(lm, edit):
    """Prompt and target as texts."""
    (target,) = long_targets(lm, [edit], "new_fact")
    decode = lm.tokenizer.decode
    return decode(target.ids[: target.start], skip_special_tokens=True), decode(target.ids[target.start :])


@pytest.mark.parametrize("architecture", ["llama", "gpt2"], ids=["with begin token", "without"])
def test_prompts_and_targets(architecture, random_lm):
    lm = random_lm(architecture, window=96)
    end = lm.tokenizer.eos_token
    question = Edit(form="document", text=TEXT, question="Where is it?")
    assert parts(lm, question) == ("Q: Where is it?\nA:", f" {TEXT}{end}")
    target = Edit(form="triplet", text=TEXT, prompt="{} is", subject="Tamsin", target_new="long")
    assert parts(lm, target) == ("Tamsin is", f" long{end}")
    assert parts(lm, Edit(form="document", text=f"Tamsin\n{TEXT}")) == ("Tamsin\n", f"{TEXT}{end}")
    lead, rest = parts(lm, Edit(form="document", text=TEXT))
    assert lead + rest == f"{TEXT}{end}" and 0 < len(lead) < len(rest)


def test_a_short_document_has_a_lead_of_half(random_lm):
    lm = random_lm(window=96)
    (target,) = long_targets(lm, [Edit(form="event", text="It is so.")], "new_fact")
    tokens = len(lm.encode("It is so.")) - 1
    assert target.start - 1 == min(LEAD, tokens // 2) < LEAD


def test_a_document_longer_than_the_window_is_taken_in_pieces(random_lm):
    lm = random_lm(window=96)
    edit = Edit(form="document", text=TEXT * 12)
    pieces = long_targets(lm, [edit], "new_fact")
    assert len(pieces) > 1 and all(len(piece.ids) <= 97 and piece.start == LEAD + 1 for piece in pieces)
    tokens = [token for piece in pieces for token in piece.ids[1:]]
    assert tokens == [*lm.encode(TEXT * 12)[1:], lm.tokenizer.eos_token_id]


def test_a_target_that_does_not_fit_behind_its_question_is_refused(random_lm):
    edit = Edit(form="document", text=TEXT * 4, question="What is it?")
    with pytest.raises(ContextOverflow, match=edit.id):
        long_targets(random_lm(window=96), [edit], "new_fact")
