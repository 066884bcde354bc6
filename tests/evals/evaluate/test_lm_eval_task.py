"""Tasks of lm-evaluation-harness on an edited model: the harness's own scores, to the digit."""

import json
from pathlib import Path
from typing import Any

import pytest

from emend.agents.llm import load_model
from emend.evals.evaluate.ability import load_abilities
from emend.memory.errors import BadSettings
from emend.memory.registry import trust_names

pytestmark = pytest.mark.slow  # importing the harness takes seconds
TASK = """\
task: {name}
dataset_path: json
dataset_kwargs:
  data_files: {{test: {data}}}
test_split: test
output_type: {kind}
doc_to_text: "{{{{q}}}}"
doc_to_target: "{{{{gold}}}}"
{more}
"""
CHOICES = 'doc_to_choice: "{{choices}}"\nmetric_list: [{metric: acc}, {metric: acc_norm}]'
MATCH = """\
generation_kwargs: {until: ["."], max_gen_toks: 6, do_sample: false}
metric_list: [{metric: exact_match, ignore_case: true, ignore_punctuation: true}]"""


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two tasks on facts of the invented world, each a YAML file with its data."""
    names = ("Alvra", "Brenn", "Corla", "Dunne", "Elsta", "Fermo", "Gralt", "Hovik")
    rows: list[dict[str, Any]] = [
        {"q": f"The capital of {name} is", "choices": [name, "Ostrim", "blue"], "gold": number % 3}
        for number, name in enumerate(names)
    ]
    texts = [{"q": row["q"], "gold": row["choices"][row["gold"]]} for row in rows]
    paths = []
    for name, data, kind, more in (
        ("choices", rows, "multiple_choice", CHOICES),
        ("texts", texts, "generate_until", MATCH),
    ):
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in data), encoding="utf-8")
        task = TASK.format(name=name, data=tmp_path / f"{name}.jsonl", kind=kind, more=more)
        (tmp_path / f"{name}.yaml").write_text(task, encoding="utf-8")
        paths.append(str(tmp_path / f"{name}.yaml"))
    return paths


def test_scores_are_those_of_the_harness_alone_and_the_model_is_left_as_it_was(files: list[str]) -> None:
    from lm_eval import simple_evaluate

    names = [f"lm_eval:{file}" for file in files]
    trust_names(names)
    model: Any = load_model("tiny")
    before = {name: tensor.clone() for name, tensor in model.lm.model.state_dict().items()}
    tokens, padding = model.lm.encode("The capital of Alvra"), model.lm.tokenizer.pad_token
    scores = [score for task in load_abilities(names) for score in task.measure(model)]
    arguments = {"pretrained": str(model.lm.folder), "dtype": "float32"}
    alone = simple_evaluate(model="hf", model_args=arguments, tasks=files, device="cpu", bootstrap_iters=0)
    expected = {
        (f"lm_eval:{task}", metric.removesuffix(",none")): value
        for task, values in alone["results"].items()
        for metric, value in values.items()
        if metric in ("acc,none", "acc_norm,none", "exact_match,none")
    }
    assert {(score.task, score.metric): score.score for score in scores} == expected and len(expected) == 3
    assert all(len(score.scores) == 8 and not score.unscored for score in scores)
    assert all((tensor == before[name]).all() for name, tensor in model.lm.model.state_dict().items())
    assert (model.lm.encode("The capital of Alvra"), model.lm.tokenizer.pad_token) == (tokens, padding)


def test_what_cannot_be_loaded_is_refused_before_the_run(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match="unknown task"):
        load_abilities(["lm_eval:a_task_that_nobody_made"])
    file = tmp_path / "broken.yaml"
    text = TASK.format(name="broken", data=tmp_path / "none.jsonl", kind="multiple_choice", more=CHOICES)
    file.write_text(text, encoding="utf-8")
    trust_names([f"lm_eval:{file}"])
    with pytest.raises(BadSettings, match="cannot be loaded"):
        load_abilities([f"lm_eval:{file}"])


def test_a_model_of_a_provider_is_unscored(files: list[str]) -> None:
    trust_names([f"lm_eval:{files[0]}"])
    (task,) = load_abilities([f"lm_eval:{files[0]}"])
    (score,) = task.measure(object())
    assert score.score is None and "local model" in score.unscored
