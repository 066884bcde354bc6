"""Tiny finished runs that await a judge, judges that know what to say of them, and what a report then shows."""

import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from emend.agents.judging.base import Item, JudgeInput, Role, Verdict
from emend.agents.judging.verdicts import Supports
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import ScoreSummary, score_run
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.manifest import FOLDER, Scoring
from emend.evals.results.aggregate.rows import report
from emend.graphs.judges.graph import Judge
from tests.fakes import ScriptedChatModel, begun
from tests.paths import DATA

JUDGE = "openai:judge"
PANEL = Panel(judges=(JUDGE,))
THOUGHTS = " The lighthouses of Torvay are Foam Light and three more.\nAnswer: 4"


class Terse(Role):
    """A judge from elsewhere: are answers out of scope short?"""

    name = "terse"
    task = "Is the answer short?"
    schema = Supports.schema
    output = "short"
    outputs = ("short",)
    scale = "yes or no"
    voted = ("short",)

    def pick(self, asked: JudgeInput) -> Item | str | None:
        return Item.of(self.name, answer=asked.answer) if asked.local and asked.answer else None

    def read(self, reply: Any, items: Sequence[Item]) -> list[Verdict]:
        return [Verdict(values={"short": float(reply.verdict == "yes")}, reason=reply.reason)]


TERSE = Judge(Terse())


def speak(prompt: str) -> str:
    """The model under test: a chain where one is asked for, a free answer, or a noun."""
    if begun(prompt).endswith("Thoughts:"):
        return THOUGHTS
    if "Say what is likely" in prompt:
        return "It will rise, because the clinic is free." if "spectacles" in prompt else "It stays as it is."
    return "unknown"


def elken_run(folder: Path, reply: Callable[[str], str] = speak) -> Path:
    """Facts and free answers of three events, under two editors."""
    config = RunConfig(
        benchmark="elken",
        data=str(DATA / "elken"),
        benchmark_options={"blocks": "fact,tendency_g"},
        editors=("unedited", "rag"),
        model="openai:tested",
        embedding="lexical",
    )
    run(config, folder, model=ScriptedChatModel(reply=reply))
    return folder


def recoe_run(folder: Path, editors: tuple[str, ...] = ("rag",)) -> Path:
    """Chains of thought of one scheme."""
    config = RunConfig(
        benchmark="recoe",
        data=str(DATA / "recoe"),
        benchmark_options={"prompting": "cot", "schemes": "counting", "perplexity": "false"},
        editors=editors,
        model="openai:tested",
        embedding="lexical",
    )
    run(config, folder, model=ScriptedChatModel(reply=speak))
    return folder


def akew_run(folder: Path) -> Path:
    """Documents in the place of facts, under one editor."""
    config = RunConfig(
        benchmark="akew",
        data=str(DATA / "akew"),
        settings=("unstruct",),
        editors=("rag",),
        model="openai:tested",
        embedding="lexical",
        limit=2,
    )
    run(config, folder, model=ScriptedChatModel(reply=speak))
    return folder


def verdict(prompt: str, mark: int = 5, yes: str = "yes") -> str:
    """A judge's reply to whichever question it is asked: `mark` on every scale, or `yes`."""
    result: dict[str, Any]
    if "<answer-1" in prompt:
        marks = _marks(mark)
        result = {"marks": [marks | {"number": n} for n in range(1, 6) if f"<answer-{n} " in prompt]}
    elif "Comprehensiveness" in prompt:
        result = _marks(mark)
    elif "how far the answers agree" in prompt:
        result = {"reason": "r", "consistency": mark}
    elif "atomic facts: short" in prompt:
        result = {"facts": ["Foam Light stands on Torvay", "Three more stand there"]}
    elif "numbered facts" in prompt:
        result = {
            "facts": [
                {"number": 1, "reason": "r", "label": "unrelated"},
                {"number": 2, "reason": "r", "label": "consistent"},
            ]
        }
    else:
        result = {"reason": "r", "verdict": yes}
    return json.dumps(result)


def _marks(mark: int) -> dict[str, Any]:
    return {"reason": "r", "correctness": mark, "coherence": mark, "comprehensiveness": mark, "overall": mark}


def judge_model(mark: int = 5, yes: str = "yes") -> ScriptedChatModel:
    """A judge that gives this mark, or this verdict."""
    return ScriptedChatModel(reply=lambda prompt: verdict(prompt, mark, yes))


def load_judge(name: str, **settings: Any) -> ScriptedChatModel:
    """As a model provider: the name is the mark that it gives."""
    return judge_model(int(name or 5))


def as_earlier(folder: Path, scoring: Scoring) -> None:
    """Keep a scoring in the files that earlier versions of Emend wrote, in place of its folder."""
    lines = [judgement.model_dump_json() for judgement in read_judgements(folder, scoring)]
    (folder / FOLDER / f"{scoring.id}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    head = scoring.model_dump_json(exclude={"job", "calling", "units", "prices", "spent"})
    (folder / FOLDER / f"{scoring.id}.json").write_text(head, encoding="utf-8")
    shutil.rmtree(scoring.folder(folder))


def scored(folder: Path, model: Any = None, panel: Panel = PANEL, **more: Any) -> ScoreSummary:
    """What comes of judging a run, with one model in the place of every judge."""
    models = {spec: model or judge_model() for spec in panel.judges}
    return score_run(folder, panel, models=models, **more)


def rows(folder: Path, editor: str = "rag", scoring: str | None = None):
    """What the report shows of an editor, by metric."""
    return {row.metric: row for row in report(folder, scoring).rows if row.editor == editor}
