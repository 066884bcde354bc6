"""One small run of each benchmark, a judged, a sequential and a failed one, and one whose every text is hostile."""

import json
import shutil
from pathlib import Path

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.log.lines import CASES, ERRORS, EVENTS, RECORDS
from emend.evals.log.manifest import MANIFEST
from tests.evals.judged_runs import elken_run, judge_model
from tests.evals.traced_runs import rough_run
from tests.fakes import ScriptedScoringModel
from tests.paths import DATA

BENCHMARKS = ("akew", "docter", "elken", "recoe", "mquake", "counterfact")
SPECIAL = ("compared", "sequential", "judged", "failed")
PAYLOADS = (
    "<img src=x onerror=window.pwned=1>",
    "</script><script>window.pwned=2</script>",
    '"><svg onload=window.pwned=3>',
    "javascript:window.pwned=4",
    "{{ 7*7 }}{% raw %}",
    "‮gnidaer",
    "]]><!--",
)
HOSTILE = " ".join(PAYLOADS)


def model() -> ScriptedScoringModel:
    """Says the last word of a fact in the prompt, or ends MeLLo's chain at once, and finds short targets likely."""
    return ScriptedScoringModel(reply=_reply, log_prob=lambda prompt, target: -float(len(target)) / 4)


def _reply(prompt: str) -> str:
    if "Subquestion:" in prompt:
        return "Final answer: nowhere"
    fact = next((line for line in prompt.splitlines() if line.startswith("New Fact:")), "")
    return fact.rstrip(".").rpartition(" ")[2] or "unknown"


def make_runs(home: Path) -> Path:
    """A folder with all runs but the hostile one."""
    for name in BENCHMARKS:
        config = RunConfig(
            benchmark=name,
            data=str(DATA / name),
            editors=("unedited", "rag"),
            model="tested",
            embedding="lexical",
            retriever="bm25",
            limit=3,
            perplexity_text="none",
        )
        run(config, home / name, model=model())
    tiny = {"benchmark": "tinyworld", "embedding": "lexical", "model": "tested", "limit": 4, "perplexity_text": "none"}
    graphs = RunConfig.model_validate(
        tiny | {"editors": ("rag", "crag", "mello"), "settings": ("document",), "mode": "all"}
    )
    run(graphs, home / "compared", model=model())
    sequence = RunConfig.model_validate(
        tiny | {"editors": ("rag", "ike"), "mode": "sequential", "reevaluate_at": "2,end"}
    )
    run(sequence, home / "sequential", model=model())
    elken_run(home / "judged")
    judges = {"openai:first": judge_model(5), "openai:second": judge_model(2, "no")}
    score_run(home / "judged", Panel(judges=tuple(judges)), models=judges)
    rough_run(home / "failed")
    return home


def hostile_run(source: Path, folder: Path) -> Path:
    """A copy of a run in which every reply, prompt, tag, editor's name, error and node has hostile texts."""
    shutil.copytree(source, folder)
    inside = json.dumps(HOSTILE, ensure_ascii=False)[1:-1]
    for name in (MANIFEST, RECORDS, CASES, EVENTS, ERRORS):
        text = (folder / name).read_text("utf-8")
        for word in ('"rag"', '"retrieve"', '"compose"', '"EM"'):
            text = text.replace(word, f'{word[:-1]} {inside}"')
        for word in ("capital", "New-", "Refused", "Unsupported"):
            text = text.replace(word, f"{word} {inside} ")
        (folder / name).write_text(text.replace('"tags":{}', f'"tags":{{"{inside}":"{inside}"}}'), encoding="utf-8")
    return folder
