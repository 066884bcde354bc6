"""Checks of the names and settings in a configuration, before data or a model is loaded."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.gguf.catalogue import CATALOGUE, require_fetched
from emend.agents.llm import HUB_ID, check_model_settings, check_spec
from emend.agents.roles.answer import find_wording
from emend.agents.roles.instructions import load_instructions
from emend.editors.hyperparameters import check_settings
from emend.editors.registry import EDITORS
from emend.evals.case import Benchmark
from emend.evals.config.division import Share
from emend.evals.config.limits import FailureLimit
from emend.evals.config.mode import Checkpoints, Mode
from emend.evals.config.overrides import MODEL
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.resources import check_benchmark_name, make_benchmark
from emend.evals.metrics.protocols import check_protocols, metrics_under
from emend.evals.metrics.requirement import Requirement, check_requirement_names
from emend.memory.embeddings.embed import check_embedding
from emend.memory.errors import ModelError, path_remedy
from emend.memory.retrieval.compose import load_retriever

REQUIRE = "require"


def check_names(fields: Mapping[str, Any]) -> None:
    """Check the fields of a configuration that can be checked without data and models.

    Fields may be missing, so that what is wrong is found before what is missing.

    Args:
        fields: fields of a `RunConfig`, and thresholds as `require`; `model` may be a list.

    Raises:
        EmendError: a name, a setting or a form is wrong.
    """
    for name, check in CHECKS.items():
        if value := fields.get(name):
            check(value)
    overrides = fields.get("overrides") or {}
    for editor in fields.get("editors") or ():
        if editor in overrides:
            check_settings(EDITORS.load(editor), overrides[editor], editor)
    for spec in _specs(fields.get(MODEL) or ()):
        check_model_settings(spec, overrides.get(MODEL, {}))


def check_config(
    config: RunConfig, require: Sequence[str] = (), model: BaseChatModel | None = None
) -> Benchmark:
    """Check a whole configuration and return its benchmark, whose data are not read yet.

    Args:
        config: configuration of a run.
        require: thresholds, which may name only metrics that the run will have.
        model: a model that replaces the configured one, whose name is then not checked.

    Raises:
        EmendError: a name, a setting or a form is wrong. Errors of making the benchmark propagate.
    """
    fields = dict(config) | {REQUIRE: require}
    if model is not None:
        del fields[MODEL]
    check_names(fields)
    spec = config.benchmark_spec
    benchmark = make_benchmark(spec.name, spec.data, spec.options)
    metrics = metrics_under(benchmark.metrics(), config.protocols)
    check_requirement_names(require, metrics, config.editors)
    return benchmark


def check_present(spec: str) -> None:
    """Check that the folder of a local model exists; a name on the hub is not looked up.

    Raises:
        ModelError: there is no such folder, or the model was not fetched.
    """
    provider, _, name = spec.partition(":")
    if provider in CATALOGUE:
        require_fetched(provider, name)
    folder = Path(name).expanduser()
    if provider == "hf" and name and not folder.exists() and not HUB_ID.fullmatch(name):
        raise ModelError(
            f"model folder {folder} is not a folder: {path_remedy(folder)} It must be written by "
            "`save_pretrained` of model and tokenizer."
        )


def _check_editors(names: Sequence[str]) -> None:
    for name in names:
        if ":" not in name and "," not in name and not EDITORS.installed(name):
            EDITORS.load(name)  # raises the error that names the nearest


def _specs(models: str | Sequence[str]) -> Sequence[str]:
    return [models] if isinstance(models, str) else models


def _check_models(models: str | Sequence[str]) -> None:
    for spec in _specs(models):
        check_spec(spec)


def _check_thresholds(texts: Sequence[str]) -> None:
    for text in texts:
        Requirement.parse(text)


# By field of a configuration, in the order in which faults are named.
CHECKS: Mapping[str, Callable[[Any], object]] = {
    "benchmark": check_benchmark_name,
    "editors": _check_editors,
    MODEL: _check_models,
    "mode": Mode.parse,
    "reevaluate_at": Checkpoints.parse,
    "share": Share.parse,
    "fail_on_error": FailureLimit.parse,
    "protocols": check_protocols,
    "retriever": load_retriever,
    "embedding": check_embedding,
    "prompt_template": find_wording,
    "prompts": load_instructions,
    REQUIRE: _check_thresholds,
}
