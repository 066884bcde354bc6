"""Contract of editors as a test class that authors of plug-ins can subclass."""

# ruff: noqa: D102  (the name of a test says what it holds)

import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from emend.editors.base import Answerer, Demonstration, Editor, EditorContext, Scorable, Sequential
from emend.editors.conformance_toys import PlainMemory, ReadingModel
from emend.editors.memory_based.unedited import Unedited
from emend.memory.edit import Edit, Triplet
from emend.memory.probe import Answer, Probe
from emend.memory.retrieval.registry import RETRIEVERS


def _edit(prompt: str, subject: str, target: str, before: str = "") -> Edit:
    triplet = Triplet(subject=subject, relation=prompt, object=target)
    return Edit.from_triplet(triplet, prompt, target_true=before)


CAPITAL = _edit("The capital of {} is", "Veldania", "Kestrel Bay", before="Ostrim")
CURRENCY = _edit("The currency of {} is", "Veldania", "florin", before="crown")
# Other scripts, targets of many tokens, and braces that are not placeholders.
ODD = (
    _edit("Le chef-lieu de {} est", "Ærøskøbing", "Нови Сад"),
    _edit("{}的首都是", "奥斯特里姆", "东京都"),
    _edit("The twin of {} is", "O'Neil-{}", "Ann"),
    _edit("Of {a, b}, one that {} likes is", "Tobin", "a {curly} thing"),
)
EXAMPLES = tuple(
    Demonstration(kind=kind, fact="The river of Orland is Aske.", prompt=prompt, target=target)
    for kind, prompt, target in (
        ("copy", "The river of Orland is", "Aske"),
        ("update", "Through Orland flows the", "Aske"),
        ("retain", "The river of Sorn is", "Lunden"),
    )
)


class DeliberateError(Exception):
    """Exception raised on purpose inside a `with`."""


class EditorContract:
    """Tests of the contract of editors; pytest collects them from a subclass named `Test...`.

    The subclass defines `factory`.

    By default the model is `ReadingModel`, which believes its prompt; `conformance_toys` has
    others, for editors that prompt for steps or thoughts, or call tools. An editor that changes
    weights needs a `context` with a local model. Set `takes` to False for an editor that changes
    nothing.

    Probabilities (`score`), steps and usage are optional, and checked if present. A `conftest.py`
    with `pytest.register_assert_rewrite("emend.editors.conformance")` makes failures show the
    compared values.

    Example:
        class TestMine(EditorContract):
            def factory(self) -> Callable[[EditorContext], Editor]:
                return MyEditor
    """

    takes: ClassVar[bool] = True

    def factory(self) -> Callable[[EditorContext], Editor]:
        """Return the factory under test, as it would be registered."""
        raise NotImplementedError(
            "return the factory (context: EditorContext) -> Editor to be tested"
        )

    def context(self) -> EditorContext:
        """Return a new context for the editor, equal at every call."""
        return EditorContext(
            model=ReadingModel(),
            memory=PlainMemory(),
            retriever=RETRIEVERS.load("bm25"),
            demonstrations=EXAMPLES,
        )

    def editor(self, context: EditorContext | None = None) -> Editor:
        """Return a new editor."""
        return self.factory()(context or self.context())

    def test_an_edit_changes_the_answer(self) -> None:
        self.check_takes((CAPITAL,))

    def test_two_edits_of_one_subject_are_both_applied(self) -> None:
        self.check_takes((CAPITAL, CURRENCY))

    def test_other_scripts_many_tokens_and_braces_are_supported(self) -> None:
        in_prompt = not self.editor().needs_weights
        for edit in ODD:
            if in_prompt or self.can_tell_apart(edit.subject):
                self.check_takes((edit,))
            else:
                self.check_changes(edit)

    def test_leaving_restores_the_model_bit_for_bit(self) -> None:
        context = self.context()
        editor, before = self.editor(context), state_of(context)
        with editor.edit((CAPITAL,)) as answerer:
            ask_edit(answerer, CAPITAL)
        check_same(before, state_of(context), "after the 'with'")

    def test_an_exception_is_raised_and_the_model_is_restored(self) -> None:
        context = self.context()
        editor, before = self.editor(context), state_of(context)
        try:
            with editor.edit((CAPITAL,)) as answerer:
                ask_edit(answerer, CAPITAL)
                raise DeliberateError
        except DeliberateError:
            check_same(before, state_of(context), "after an exception in the 'with'")
            with editor.edit((CAPITAL,)) as answerer:
                ask_edit(answerer, CAPITAL)
        else:
            raise AssertionError("the editor swallowed an exception from inside the 'with'")

    def test_a_sequence_is_reproducible_and_reverted(self) -> None:
        """Check a sequence; an editor without `sequence` gets all edits so far at each step."""
        context = self.context()
        editor, before = self.editor(context), state_of(context)
        first, again = self.in_sequence(editor), self.in_sequence(editor)
        check_same(before, state_of(context), "after a sequence")
        assert first == again, "the same sequence of edits had another result the second time"
        assert first[0] == self.under(editor, (), CAPITAL).log_probs, (
            "a sequence began with an edit still applied"
        )
        assert not first[0] or (first[1] != first[0]) == self.takes, (
            "the first edit of a sequence had no effect"
        )

    def in_sequence(self, editor: Editor) -> list[tuple[float, ...]]:
        """Return the first target's log-probabilities before and after its edit and a second."""
        steps: tuple[tuple[Edit, ...], ...] = ((), (CAPITAL,), (CURRENCY,))
        if not isinstance(editor, Sequential):
            return [
                self.under(editor, sum(steps[: n + 1], ()), CAPITAL).log_probs for n in range(3)
            ]
        with editor.sequence() as grow:
            return [ask_edit(grow(edits), CAPITAL).log_probs for edits in steps]

    def test_no_edits_change_nothing(self) -> None:
        context = self.context()
        before = state_of(context)
        with Unedited(EditorContext(model=context.model, wording=context.wording)).edit(
            ()
        ) as plain:
            expected = ask_edit(plain, CAPITAL)
        with self.editor(context).edit(()) as answerer:
            check_same(before, state_of(context), "under an empty list of edits")
            answer = ask_edit(answerer, CAPITAL)
        assert answer.text == expected.text, f"{answer} instead of {expected}"
        log_probs = expected.log_probs if isinstance(answerer, Scorable) else ()
        assert answer.log_probs == log_probs, f"{answer}, not {expected}"

    def test_earlier_edits_leave_no_trace(self) -> None:
        editor = self.editor()
        first = self.under(editor, (CAPITAL,), CAPITAL)
        self.under(editor, (CAPITAL, CURRENCY), CURRENCY)
        again = self.under(editor, (CAPITAL,), CAPITAL)
        assert (again.text, again.log_probs, again.prompt) == (
            first.text,
            first.log_probs,
            first.prompt,
        )

    def test_probes_out_of_scope_are_answered(self) -> None:
        probe = Probe(
            kind="neighborhood", prompt="The capital of Sorn is", gold=("Lunden",), in_scope=False
        )
        with self.editor().edit((CAPITAL, CURRENCY)) as answerer:
            assert answerer.answer(probe).text is not None

    def test_answers_carry_prompt_steps_and_usage(self) -> None:
        with self.editor().edit((CAPITAL,)) as answerer:
            for answer in generate_and_score(answerer, CAPITAL):
                assert answer.prompt, "the exact prompt is missing"
                assert all(step.error is None and step.ms >= 0 for step in answer.steps)
                # steps must be JSON for the trace
                json.dumps([step.update for step in answer.steps])
                # the run fills in both for an editor that sets neither
                if any(step.calls for step in answer.steps):
                    assert answer.usage.calls >= 1 and answer.usage.input_tokens >= 1

    def test_scoring_gives_one_log_probability_per_target_under_the_same_prompt(self) -> None:
        with self.editor().edit((CAPITAL,)) as answerer:
            answers = generate_and_score(answerer, CAPITAL)
        for scored in answers[1:]:
            assert len(scored.log_probs) == 2 and all(value <= 0 for value in scored.log_probs)
            assert scored.text is None and scored.prompt == answers[0].prompt

    def test_the_fingerprint_is_json_and_does_not_change(self) -> None:
        editor = self.editor()
        fingerprint = json.dumps(editor.fingerprint, sort_keys=True, allow_nan=False)
        with editor.edit((CAPITAL,)) as answerer:
            ask_edit(answerer, CAPITAL)
            assert json.dumps(editor.fingerprint, sort_keys=True) == fingerprint
        assert json.dumps(self.editor().fingerprint, sort_keys=True) == fingerprint, (
            "two equal editors differ"
        )

    def test_it_says_what_it_is(self) -> None:
        editor = self.editor()
        assert isinstance(editor.name, str) and editor.name
        assert isinstance(editor.needs_weights, bool)

    def check_takes(self, edits: Sequence[Edit]) -> None:
        """Assert that every target is generated or more probable, or not if `takes` is False."""
        editor = self.editor()
        for edit in edits:
            before, after = self.under(editor, (), edit), self.under(editor, edits, edit)
            rose = bool(after.log_probs) and after.log_probs[0] > before.log_probs[0]
            says = edit.target_new in (after.text or "") and edit.target_new not in (
                before.text or ""
            )
            assert (rose or says) == self.takes, (
                f"edit '{edit.text}': before {before}, after {after}"
            )

    def can_tell_apart(self, subject: str) -> bool:
        """Return True if the model can distinguish a subject from others.

        A tokenizer spells an unknown script in single bytes, which the model has not learnt to
        distinguish. Weights changed for one subject in that script then change for all of its text,
        including the target.
        """
        lm = getattr(self.context().model, "lm", None)
        return lm is None or len(lm.tokenizer.encode(subject, add_special_tokens=False)) < len(
            subject.encode()
        )

    def check_changes(self, edit: Edit) -> None:
        """Assert that the edit changes its target's probability, or not if `takes` is False."""
        editor = self.editor()
        before, after = self.under(editor, (), edit), self.under(editor, (edit,), edit)
        assert (after.log_probs != before.log_probs) == self.takes, (
            f"before {before}, after {after}"
        )

    def under(self, editor: Editor, edits: Sequence[Edit], edit: Edit) -> Answer:
        """Return the answer to an edit's prompt while these edits are applied."""
        with editor.edit(edits) as answerer:
            return ask_edit(answerer, edit)


def probe_of(edit: Edit) -> Probe:
    """Return a probe with the edit's own prompt."""
    return Probe(
        kind="efficacy",
        prompt=edit.cloze,
        gold=(edit.target_new,),
        edit_ids=(edit.id,),
        subject=edit.subject,
    )


def generate_and_score(answerer: Answerer, edit: Edit) -> list[Answer]:
    """Return the answer to the edit's prompt and, if available, its targets' scores."""
    probe = probe_of(edit)
    answers = [answerer.answer(probe)]
    if isinstance(answerer, Scorable):
        answers.append(answerer.score(probe, (edit.target_new, edit.target_true or "nothing")))
    return answers


def ask_edit(answerer: Answerer, edit: Edit) -> Answer:
    """Return the answer to the edit's own prompt, with log-probabilities if available."""
    answer, *scored = generate_and_score(answerer, edit)
    return answer.but(log_probs=scored[0].log_probs) if scored else answer


def state_of(context: EditorContext) -> dict[str, Any]:
    """Return a copy of the model's weights; empty if the model is not local."""
    lm = getattr(context.model, "lm", None)
    if lm is None:
        return {}
    return {name: value.detach().clone() for name, value in lm.model.state_dict().items()}


def check_same(before: dict[str, Any], now: dict[str, Any], when: str) -> None:
    """Assert that every weight is unchanged, bit for bit."""
    assert before.keys() == now.keys()
    changed = [name for name, value in before.items() if not bool((value == now[name]).all())]
    assert not changed, f"{when} these weights differ: {', '.join(changed)}"
