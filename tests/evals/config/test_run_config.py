"""Fields of a configuration that are short texts, and what they mean."""

import pytest

from emend.evals.config.run_config import Checkpoints, FailureLimit, Mode, ParsedFields, RunConfig, Share, WorkersSpec


def test_short_texts_are_parsed_to_what_they_mean():
    texts = {"mode": "sequential", "reevaluate_at": "2,end", "share": "2/3", "fail_on_error": "false"}
    workers = {"workers": "ray:host", "gpus_per_worker": 0.5}
    config = RunConfig.model_validate({"benchmark": "tinyworld", "editors": ("rag",)} | texts | workers)
    assert config.parsed() == ParsedFields(
        mode=Mode("sequential"),
        checkpoints=Checkpoints((2,), end=True),
        failure_limit=FailureLimit("false", "count", float("inf")),
        share=Share(2, 3),
        workers=WorkersSpec("ray", address="host", gpus=0.5),
    )
    assert RunConfig(benchmark="tinyworld", editors=("rag",)).parsed()[:2] == (None, Checkpoints())


@pytest.mark.parametrize("text", ["auto", "threads", "processes:3", "ray", "ray:ray://10.0.0.1:10001"])
def test_workers_are_written_as_they_are_given(text):
    assert str(WorkersSpec.parse(text)) == text
