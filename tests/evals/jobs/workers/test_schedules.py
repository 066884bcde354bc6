"""Whatever happens to workers and their messages, a run ends with the records of an undisturbed one."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.jobs import runner
from emend.evals.jobs.workers.base import RunState, Workers
from emend.evals.jobs.workers.choose import worker_setup
from emend.evals.jobs.workers.driver import DealtWorkers
from emend.evals.log.lines import BASELINE, RECORDS
from emend.evals.log.records import read_lines
from tests.evals.jobs.workers.scripted import Script, ScriptedTransport
from tests.evals.toy_runs import steps_of, untimed_records
from tests.evals.toys import BENCHMARK, EDITOR, HEAVY

MODES = ("single", "batch:3", "all", "sequential")
PLANS = [(mode, share) for mode in MODES for share in (None, "1/2")]
RATES = st.sampled_from([0.0, 0.1, 0.4])
SCRIPTS = st.builds(Script, st.integers(0, 2**32), kill=st.sampled_from([0.0, 0.05, 0.2]), repeat=RATES, delay=RATES)


def config(mode: str, share: str | None = None) -> RunConfig:
    return RunConfig(
        benchmark=BENCHMARK,
        editors=("unedited", EDITOR, HEAVY),
        model="tests.evals.toys:ScriptedModel",
        mode=mode,
        fail_on_error="false",
        share=share,
        benchmark_options={"cases": "7"},
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str | None], Path]:
    """A folder of an undisturbed run in threads for each mode, and for a share of it."""
    folders = {plan: tmp_path_factory.mktemp("whole") for plan in PLANS}
    for plan, folder in folders.items():
        run(config(*plan), folder)
    return folders


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(script=SCRIPTS, plan=st.sampled_from(PLANS), workers=st.integers(1, 4))
def test_any_schedule_gives_the_same_records(
    whole: dict[tuple[str, str | None], Path], script: Script, plan: tuple[str, str | None], workers: int
) -> None:
    transport = ScriptedTransport(script)

    def setup(state: RunState, place: int, number: int):
        return worker_setup(state, place, workers, None)

    def scripted(*_: object) -> Workers:
        return DealtWorkers("scripted", transport, setup, workers)

    with TemporaryDirectory() as name, pytest.MonkeyPatch.context() as patch:
        folder = Path(name)
        patch.setattr(runner, "make_workers", scripted)
        summary = run(config(*plan), folder)
        assert transport.kills or not summary.failed
        patch.undo()
        if summary.failed:  # two workers died over the same task
            run(config(*plan), folder)
        assert untimed_records(folder) == untimed_records(whole[plan])
        assert steps_of(folder) == steps_of(whole[plan])
        assert (folder / RECORDS).read_bytes().count(b"\n") == len(untimed_records(folder))
        asked = [line["key"] for line in read_lines(folder, BASELINE)]
        assert len(asked) == len(set(asked)) == len(list(read_lines(whole[plan], BASELINE)))
