"""Checks of a fair comparison: the gold of a stream, an oracle reader, and the judges."""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, SimpleChatModel
from langchain_core.messages import BaseMessage

from emend.agents.judging.base import Item, JudgeInput
from emend.evals.judging.panel import load_judge
from emend.evals.metrics.estimate import Estimate, estimate
from emend.evals.metrics.expected_answers import PLANTED, UNKNOWN
from emend.evals.streams.gold import GoldState
from emend.evals.streams.run.scores import expected_of
from emend.evals.streams.sentences.wordings import read_question
from emend.evals.streams.turn import StreamItem, StreamQuestion, Turn
from emend.memory.edit import FrozenModel

_LINE = re.compile(
    r"^(?:Q: )?\[(?P<date>[^\]]*)\] (?P<speaker>[^:\n]{1,60}): "
    r"(?P<text>.*)$",
    re.MULTILINE,
)
# Suffix of a fact that held until a date, as written by systems that track the end of facts.
_ENDED = re.compile(r" \(until (?P<date>\d{4}-\d\d-\d\d)\)$")
NOT_USERS = ("document", "assistant")


def answer_prompt(prompt: str) -> str:
    """Answer the question at the end of a prompt by parsing its dated messages exactly."""
    lines = list(_LINE.finditer(prompt))
    target = read_question(lines[-1]["text"]) if lines else None
    if target is None:
        return UNKNOWN
    last = lines.pop()
    state = GoldState(read_texts=True)
    for turn in _turns(lines, target.on):
        state.apply(turn)
    return " and ".join(state.answer(last["speaker"], target)) or UNKNOWN


def _turns(lines: list[re.Match[str]], on: str) -> Iterator[Turn]:
    """Yield the messages as turns; ended facts count only for questions about earlier dates."""
    for number, line in enumerate(lines):
        ended = _ENDED.search(line["text"])
        if ended and not (on and on < ended["date"]):
            continue
        is_user = line["speaker"] not in NOT_USERS
        yield Turn.model_construct(
            id=str(number),
            date=line["date"],
            user=line["speaker"],
            role="user" if is_user else "document",
            text=line["text"][: ended.start() if ended else None],
        )


class OracleReader(SimpleChatModel):
    """A chat model that answers the questions of generated streams by `answer_prompt`."""

    @property
    def _llm_type(self) -> str:
        return "oracle-reader"

    def _call(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **settings: Any,
    ) -> str:
        return answer_prompt("\n".join(str(message.text) for message in messages))


# Decides whether a text is the right answer to a question.
Judge = Callable[[StreamQuestion, str], bool]
MAX_FAULTS = 20


class StreamCheck(FrozenModel):
    """The outcome of a check: the number of failing questions, their total, and examples."""

    name: str
    failed: int
    n: int
    examples: tuple[str, ...] = ()


class GoldFault(NamedTuple):
    """A question whose gold differs from what the turns' texts say."""

    question: StreamQuestion
    texts: tuple[str, ...]


class JudgeCheck(FrozenModel):
    """Error rates of a judge on answers that are known to be right or wrong, with intervals."""

    false_acceptance: Estimate
    false_rejection: Estimate

    @property
    def rows(self) -> list[StreamCheck]:
        """Both error rates as checks."""
        rates = (
            ("the judge accepts a wrong answer", self.false_acceptance),
            ("the judge rejects a right answer", self.false_rejection),
        )
        return [_rate_row(name, rate) for name, rate in rates if rate.mean is not None]


def _rate_row(name: str, rate: Estimate) -> StreamCheck:
    percent = rate.scaled(100)
    interval = "" if percent.low is None else f" [{percent.low:.0f}, {percent.high:.0f}]"
    failed = round((rate.mean or 0) * rate.n)
    return StreamCheck(
        name=name, failed=failed, n=rate.n, examples=(f"{name}: {percent.mean:.1f}%{interval}",)
    )


def judge_by_rules(question: StreamQuestion, answer: str) -> bool:
    """Judge an answer by the scoring rules."""
    return expected_of(question).read(answer).right


def judge_by_model(model: BaseChatModel) -> Judge:
    """Return a judge that lets a chat model compare an answer with gold.

    An unusable verdict does not accept the answer.
    """
    judge = load_judge("equivalence")

    def accept(question: StreamQuestion, answer: str) -> bool:
        record = JudgeInput(
            question=question.text,
            gold=question.gold or (UNKNOWN,),
            answer=answer,
            kind=question.kind,
            outputs=frozenset({judge.role.output}),
        )
        item = judge.role.pick(record)
        if not isinstance(item, Item):
            return False
        (verdict,) = judge.judge([item], model)
        return verdict.values.get(judge.role.output) == 1.0

    return accept


def find_wrong_gold(items: Sequence[StreamItem]) -> Iterator[GoldFault]:
    """Yield the questions whose gold differs from an exact reading of the turns."""
    states: dict[str, GoldState] = {}
    for item in items:
        state = states.setdefault(item.stream, GoldState(read_texts=True))
        if isinstance(item, Turn):
            state.apply(item)
        elif target := read_question(item.text):
            answer = state.answer(item.user, target)
            if {*answer} != {*item.gold}:
                yield GoldFault(item, answer)


def right_answer(question: StreamQuestion) -> str:
    """Return an answer that is right by gold."""
    return " and ".join(question.gold) if question.kind == "set" else (*question.gold, UNKNOWN)[0]


def wrong_answers(question: StreamQuestion) -> list[str]:
    """Return wrong answers in several wordings."""
    return [form.format(wrong.value) for wrong in question.wrong for form in PLANTED]


def check_judge(
    judge: Judge, questions: Sequence[StreamQuestion], planted: int | None = None
) -> JudgeCheck:
    """Measure a judge's error rates on right answers and planted wrong ones.

    Args:
        judge: the judge.
        questions: questions with gold and wrong answers.
        planted: maximum number of wrong answers per question; None for all.
    """
    right = [question for question in questions if not judge(question, right_answer(question))]
    wrong = [
        (question.id, float(judge(question, answer)))
        for question in questions
        for answer in wrong_answers(question)[:planted]
    ]
    failed = {question.id for question in right}
    return JudgeCheck(
        false_acceptance=estimate([value for _, value in wrong], [case for case, _ in wrong]),
        false_rejection=estimate(
            [float(each.id in failed) for each in questions], [each.id for each in questions]
        ),
    )


def check_stream(items: Sequence[StreamItem]) -> list[StreamCheck]:
    """Run all checks of a stream: its gold, and the scores of right, missing and wrong answers."""
    questions = [item for item in items if isinstance(item, StreamQuestion)]
    readable = sum(read_question(question.text) is not None for question in questions)
    faults = [
        f"{fault.question.text} has {fault.question.gold or (UNKNOWN,)}, the turns say "
        f"{fault.texts or (UNKNOWN,)}"
        for fault in find_wrong_gold(items)
    ]
    answerable = [question for question in questions if not question.abstains]
    return [
        _check("the gold answer differs from the turns", faults, readable),
        _check(
            "the gold answer is scored as wrong",
            _failing(questions, right_answer, accepted=False),
            len(questions),
        ),
        _check(
            "an abstention on an answerable question is scored as right",
            _failing(answerable, lambda each: UNKNOWN),
            len(answerable),
        ),
        _check("a wrong answer is scored as right", _accepted(questions), len(questions)),
    ]


def _check(name: str, faults: Sequence[str], n: int) -> StreamCheck:
    return StreamCheck(name=name, failed=len(faults), n=n, examples=tuple(faults[:MAX_FAULTS]))


def _failing(
    questions: Sequence[StreamQuestion],
    answer: Callable[[StreamQuestion], str],
    accepted: bool = True,
) -> list[str]:
    return [
        f"{each.text} {answer(each)}"
        for each in questions
        if judge_by_rules(each, answer(each)) == accepted
    ]


def _accepted(questions: Sequence[StreamQuestion]) -> list[str]:
    """Return, for each question, the first wrong answer that the scoring rules accept."""
    hits: list[str] = []
    for question in questions:
        for text in wrong_answers(question):
            if judge_by_rules(question, text):
                hits.append(f"{question.text} {text}")
                break
    return hits
