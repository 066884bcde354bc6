"""Conformance tests for memory systems, as a class that authors of plug-ins subclass."""

# ruff: noqa: D102  (the name of a test says what it holds)

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar

from emend.evals.streams.gold import StateFact
from emend.evals.streams.system import (
    CanForget,
    ContextItem,
    HasHistory,
    HasSize,
    HasState,
    RecallSystem,
    SystemContext,
    SystemFactory,
)
from emend.evals.streams.turn import StreamQuestion, Turn
from emend.memory.embeddings.embed import LexicalEmbedding
from emend.memory.probe import Answer

TURNS = tuple(
    Turn(date=f"2025-01-{day:02d}", session="s1", text=text)
    for day, text in enumerate(
        (
            "The employer of Mira Tolvane is Aske Works.",
            "Tobin Hale was born in Kestrel Bay.",
            "Good morning!",
            "The headquarters of Aske Works is Port Lunden.",
            "Update: The employer of Mira Tolvane is Brandt Mills.",
        ),
        1,
    )
)
EMPLOYER = StreamQuestion(
    text="What is the employer of Mira Tolvane?",
    kind="current",
    gold=("Brandt Mills",),
    date="2025-01-06",
    evidence=(TURNS[4].id,),
)
BIRTHPLACE = StreamQuestion(
    text="What is the birthplace of Tobin Hale?",
    kind="current",
    gold=("Kestrel Bay",),
    date="2025-01-06",
    evidence=(TURNS[1].id,),
)
ODD = (
    "",
    " ",
    "?!",
    "word " * 5000,
    "奥斯特里姆",
    "🙂",
    "a\u2028b",
    "{curly} %s",
    "'; DROP TABLE turns; --",
)


class SystemContract:
    """Contract tests of memory systems; pytest collects subclasses named `Test...`.

    A subclass overrides `factory`. A system with `answer` instead of `context_for` is tested by its
    answers. Set `recalls` to False for a system that knows nothing on purpose.

    Example:
        class TestMine(SystemContract):
            def factory(self) -> SystemFactory:
                return MySystem
    """

    recalls: ClassVar[bool] = True

    def factory(self) -> SystemFactory:
        """Return the factory under test, as it would be registered."""
        raise NotImplementedError(
            "return the factory (context: SystemContext) -> system to be tested"
        )

    def context(self, folder: Path | None = None) -> SystemContext:
        """Return a new context for the system; contexts with the same folder are equal."""
        by_id = {turn.id: turn for turn in TURNS}
        evidence: dict[str, Sequence[Turn]] = {}
        for question in (EMPLOYER, BIRTHPLACE):
            evidence[question.id] = [by_id[turn] for turn in question.evidence]
        return SystemContext(
            embedding=LexicalEmbedding(),
            folder=folder,
            evidence=lambda question: evidence.get(question.id, ()),
        )

    def system(self, turns: Sequence[Turn] = TURNS, folder: Path | None = None) -> Any:
        """Return a system that has observed the turns."""
        system = self.factory()(self.context(folder))
        for turn in turns:
            system.observe(turn)
        return system

    def recalled(self, system: Any, question: StreamQuestion = EMPLOYER) -> str:
        """Return the texts that the system recalls for a question, or its answer."""
        if not isinstance(system, RecallSystem):
            answer = system.answer(question.without_gold(), question.date)
            return str(answer.text if isinstance(answer, Answer) else answer)
        items = list(system.context_for(question.without_gold(), question.date))
        assert all(isinstance(item, ContextItem) for item in items), f"not context items: {items}"
        return "\n".join(item.text for item in items)

    def test_it_recalls_observed_turns(self) -> None:
        system = self.system()
        expected = {"Brandt Mills", "Kestrel Bay"} if self.recalls else set()
        text = f"{self.recalled(system)}\n{self.recalled(system, BIRTHPLACE)}"
        assert {name for name in ("Brandt Mills", "Kestrel Bay") if name in text} == expected

    def test_it_recalls_nothing_before_the_first_turn(self) -> None:
        text = self.recalled(self.system(()))
        assert not any(name in text for name in ("Aske Works", "Brandt Mills")), (
            f"recalled {text!r}"
        )

    def test_it_does_not_recall_later_turns(self) -> None:
        assert "Brandt Mills" not in self.recalled(self.system(TURNS[:4]))

    def test_two_systems_share_nothing(self) -> None:
        self.system()
        assert "Kestrel Bay" not in self.recalled(self.system(()), BIRTHPLACE)

    def test_a_question_changes_nothing(self) -> None:
        system = self.system()
        first = self.recalled(system)
        self.recalled(system, BIRTHPLACE)
        assert self.recalled(system) == first

    def test_observing_a_turn_twice_changes_nothing(self) -> None:
        system = self.system()
        before = self.recalled(system), system.size() if isinstance(system, HasSize) else None
        for turn in TURNS[1:]:
            system.observe(turn)
        after = self.recalled(system), system.size() if isinstance(system, HasSize) else None
        assert after[0].splitlines() == before[0].splitlines(), (
            "a turn that was observed again is recalled differently"
        )
        if before[1] is not None and after[1] is not None:
            assert after[1].items == before[1].items, (
                "a turn that was observed again is stored twice"
            )

    def test_odd_turns_and_questions_do_no_harm(self) -> None:
        system = self.system()
        for number, text in enumerate(ODD):
            system.observe(Turn(id=f"odd-{number}", date="2025-01-06", text=text))
            self.recalled(system, StreamQuestion(text=text, kind="current", gold=("x",)))
        assert not self.recalls or "Kestrel Bay" in self.recalled(system, BIRTHPLACE)

    def test_its_state_has_current_facts(self) -> None:
        system = self.system()
        if isinstance(system, HasState):
            facts = {*system.state()}
            assert StateFact("user", "Mira Tolvane", "employer", "Brandt Mills") in facts, (
                f"state {facts}"
            )
            assert not any(fact.object == "Aske Works" for fact in facts), f"state {facts}"

    def test_its_history_has_former_values_oldest_first(self) -> None:
        system = self.system()
        if isinstance(system, HasHistory):
            assert [*system.history("user", "Mira Tolvane", "employer")] == [
                "Aske Works",
                "Brandt Mills",
            ]

    def test_forgotten_facts_are_not_recalled(self) -> None:
        system = self.system()
        if isinstance(system, CanForget):
            system.forget("user", "Mira Tolvane", "employer")
            text = self.recalled(system)
            assert not any(
                f"Mira Tolvane is {name}" in text for name in ("Aske Works", "Brandt Mills")
            ), f"got {text!r}"

    def test_a_store_in_a_folder_persists(self) -> None:
        if not getattr(self.factory(), "persistent", False):
            return
        with TemporaryDirectory() as home:
            first = self.system(folder=Path(home))
            before = self.recalled(first)
            first.close()
            # the state after a kill between storing a turn and recording it as observed
            again = self.system(TURNS[4:], Path(home))
            assert self.recalled(again) == before
            again.close()
