"""Every judge of Emend keeps the contract, and the contract catches judges that do not."""

from typing import Any

import pytest

from emend.agents.judging.base import Item, JudgeInput, Verdict, VerdictSchema, YesNo, YesNoRole
from emend.graphs.judges.conformance import JudgeContract
from emend.graphs.judges.graph import Judge
from emend.graphs.registry import JUDGES
from tests.graphs.judge_items import ITEMS, REPLIES


class TestEveryJudge(JudgeContract):
    @pytest.fixture(autouse=True, params=JUDGES.names())
    def _named(self, request):
        self.name = request.param

    def judge(self):
        return JUDGES.load(self.name)

    def item(self):
        return ITEMS[self.name]

    def replies(self):
        return REPLIES[self.name]


class Politeness(VerdictSchema):
    """The verdict on an answer."""

    reason: str
    verdict: YesNo


class Polite(YesNoRole):
    """A role that keeps the contract; those below break it in one way each."""

    name = "polite"
    task = "Is the answer polite?"
    schema = Politeness
    output = "polite"

    def pick(self, record: JudgeInput) -> Item | str | None:
        return Item.of(self.name, answer=record.answer) if record.answer else None


class Gullible(Polite):
    output = "polite"

    def read_words(self, reply, items):
        return [Verdict(values={"polite": 1.0})]


class Unfenced(Polite):
    output = "polite"

    def prompt(self, items, swapped=False):
        return f"{self.task}\n<answer>{items[0].parts['answer'][0]}</answer>"


class Nameless(Polite):
    output = "polite"
    name = ""


class Moody(Polite):
    output = "polite"

    def pick(self, record):
        return Item.of(self.name, answer=record.answer) if record.answer is not None else ""


class Undeclared(Polite):
    output = "polite"

    def read(self, reply: Any, items: Any) -> list[Verdict]:
        return [Verdict(values={"rude": 0.0})]


def contract(role: type[Polite]) -> JudgeContract:
    class Contract(JudgeContract):
        def judge(self):
            return Judge(role())

        def item(self):
            return Item.of(role.name, answer="Thank you, Brenn.")

        def replies(self):
            return [{"reason": "Thanks.", "verdict": "yes"}]

    return Contract()


@pytest.mark.parametrize(
    ("role", "test"),
    [
        (Gullible, "test_junk_is_a_problem_and_never_a_number"),
        (Unfenced, "test_texts_cannot_close_their_own_delimiters"),
        (Nameless, "test_it_says_what_it_is"),
        (Moody, "test_pick_returns_an_item_a_reason_or_none"),
        (Undeclared, "test_good_replies_become_numbers_of_its_outputs"),
    ],
)
def test_the_contract_catches_what_is_broken(role, test):
    getattr(contract(Polite), test)()
    with pytest.raises(AssertionError):
        getattr(contract(role), test)()
