"""Fields of a configuration that are short texts, and what they mean."""

from math import nan

import pytest
from pydantic import ValidationError

from emend.evals.config.build_config import BuildConfig
from emend.evals.config.division import Share, WorkersSpec
from emend.evals.config.limits import FailureLimit
from emend.evals.config.mode import Checkpoints, Mode
from emend.evals.config.plan import Plan
from emend.evals.config.run_config import RunConfig
from emend.memory.errors import BadSettings


def test_short_texts_are_parsed_to_what_they_mean():
    texts = {"mode": "sequential", "reevaluate_at": "2,end", "share": "2/3", "fail_on_error": "false"}
    workers = {"workers": "ray:host", "gpus_per_worker": 0.5}
    config = RunConfig.model_validate({"benchmark": "tinyworld", "editors": ("rag",)} | texts | workers)
    assert config.plan == Plan(
        mode=Mode("sequential"),
        checkpoints=Checkpoints((2,), end=True),
        failure_limit=FailureLimit("false", "count", float("inf")),
        share=Share(2, 3),
        workers=WorkersSpec("ray", address="host", gpus=0.5),
    )
    assert RunConfig(benchmark="tinyworld", editors=("rag",)).plan[:2] == (None, Checkpoints())


@pytest.mark.parametrize("text", ["auto", "threads", "processes:3", "ray", "ray:ray://10.0.0.1:10001"])
def test_workers_are_written_as_they_are_given(text):
    assert str(WorkersSpec.parse(text)) == text


@pytest.mark.parametrize(
    ("name", "number"),
    [("rpm", 0), ("rpm", nan), ("tpm", -5), ("tpm", nan), ("max_cost", -1), ("max_cost", nan), ("max_calls", -1)],
)
def test_an_impossible_limit_is_refused_by_every_configuration(name, number):
    option = f"--{name.replace('_', '-')} is"
    with pytest.raises(BadSettings, match=option):
        RunConfig.model_validate({"benchmark": "tinyworld", "editors": ("rag",), name: number})
    with pytest.raises(BadSettings, match=option):
        BuildConfig.model_validate({"source": "docs", name: number})


@pytest.mark.parametrize("seed", [-1, 2**63, 2**70])
def test_a_seed_that_no_generator_takes_is_refused_before_the_run(seed):
    with pytest.raises(ValidationError, match="seed"):
        RunConfig(benchmark="tinyworld", editors=("rag",), seed=seed)
    assert RunConfig(benchmark="tinyworld", editors=("rag",), seed=2**63 - 1).seed == 2**63 - 1
