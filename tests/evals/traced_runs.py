"""Finished runs to look at: one that went well, one against a provider that failed now and then."""

from pathlib import Path

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from tests.evals.toys import BENCHMARK, EDITOR, ScriptedModel
from tests.provider.models import asked_model
from tests.provider.protocols import Asked
from tests.provider.server import Provider


def smooth_run(folder: Path) -> Path:
    """Two editors, nothing amiss."""
    config = RunConfig(benchmark=BENCHMARK, editors=("rag", EDITOR), model="scripted", embedding="lexical", mode="all")
    run(config, folder, model=ScriptedModel())
    return folder


def knows(asked: Asked) -> str:
    """The capital of the land that is asked about last, as a fact in the prompt has it; no reply about rivers."""
    return asked.prompt.partition(" is ")[2].partition(".")[0] or "nothing"


def rough_run(folder: Path) -> Path:
    """Four cases: calls 2 and 3 have to be made again, one case fails, and one reply is a refusal."""

    def fault(asked: Asked) -> str:
        return "refusal" if "river of Land3" in asked.prompt else "400" if "capital of Land1 is" in asked.prompt else ""

    with Provider(knows, faults=["", "429", "503"], strike=fault) as provider:
        config = RunConfig(
            benchmark=BENCHMARK,
            editors=("rag",),
            embedding="lexical",
            retriever="bm25",
            model=provider.spec("chat"),
            benchmark_options={"cases": "4"},
            fail_on_error="false",
            concurrency=1,
        )
        run(config, folder, model=asked_model(provider))
    return folder
