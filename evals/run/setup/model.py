"""The model of a run: loaded with its call policy, checked, and described for the manifest."""

from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.llm import fingerprint, load_model
from emend.agents.providers.policy import CallPolicy
from emend.agents.scoring import resolve_form
from emend.evals.config.run_config import MODEL, RunConfig
from emend.memory.errors import BadSettings

LIMITS = ("rpm", "tpm", "max_cost", "max_calls", "prices", "cache")
"""Options that only concern models of providers."""


def load_model_and_policy(config: RunConfig) -> tuple[BaseChatModel, CallPolicy]:
    """Load the named model, and make the policy by which it and the editors' own models are called."""
    policy = config.policy()
    return load_model(config.model, policy, **config.overrides.get(MODEL, {})), policy


def check_form(config: RunConfig, model: BaseChatModel) -> None:
    """Check that the model can be asked in the form that the configuration names.

    Raises:
        BadSettings: it takes no plain text, or has no chat template.
    """
    if config.form == "plain" and resolve_form(model, "plain") == "chat":
        raise BadSettings(f"--form plain with model '{config.model}': it takes messages only. Leave --form out.")
    if config.form == "chat" and resolve_form(model, "chat") == "plain":
        raise BadSettings(
            f"--form chat with model '{config.model}': it has no chat template, or model.chat=false turns it off. "
            "Leave --form out."
        )


def refuse_unused_limits(config: RunConfig, policy: CallPolicy) -> None:
    """Check, once all models are loaded, that limits, prices and a cache concern one of them.

    Raises:
        BadSettings: every model is local.
    """
    limits = [f"--{name.replace('_', '-')}" for name in LIMITS if getattr(config, name) is not None]
    if limits and not policy.models:
        raise BadSettings(
            f"{' and '.join(limits)} with model '{config.model}': a model on this machine has no provider to call or "
            "pay."
        )


def model_fingerprint(spec: str, model: BaseChatModel) -> dict[str, Any]:
    """Return the model's name, a digest of local weights, and the parameters that it is called with."""
    plain = (str, int, float, bool, list, tuple, type(None))
    parameters = {name: value for name, value in model._identifying_params.items() if isinstance(value, plain)}
    return {"name": spec, "fingerprint": fingerprint(model, spec), "parameters": parameters}
