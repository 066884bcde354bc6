"""Construction setup: the items read from the source, and the loaded models."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.language_models import BaseChatModel

from emend.agents.llm import fingerprint, load_model
from emend.agents.providers.policy import CallPolicy
from emend.agents.scoring import resolve_form
from emend.evals.config.build_config import BuildConfig
from emend.evals.config.overrides import MODEL
from emend.evals.construction.items.line import BuildItem
from emend.evals.construction.items.maker import ItemMaker, construction_settings
from emend.evals.construction.items.source import ItemSource, read_item_source
from emend.evals.evaluate.resources import model_fingerprint
from emend.evals.jobs.limits import refuse_unused_limits
from emend.memory.errors import BadSettings

# Fingerprint of the judge if it is the author.
AUTHOR = "the author"


@dataclass(frozen=True)
class ConstructionSetup:
    """Source, models and maker of a construction.

    Attributes:
        kind: kind of benchmark.
        config: build configuration.
        source_name: file, folder or benchmark whose items are read.
        source: the items and their provenance.
        maker: maker of the items.
        author_fingerprint: identifying fields of the author.
        policy: call policy of the models.
    """

    kind: str
    config: BuildConfig
    source_name: str
    source: ItemSource
    maker: ItemMaker
    author_fingerprint: dict[str, Any]
    policy: CallPolicy

    @property
    def items(self) -> Sequence[BuildItem]:
        """The items to make."""
        return self.source.items


def load_construction(
    kind: str,
    config: BuildConfig,
    source: str,
    author: BaseChatModel | None = None,
    judge: BaseChatModel | None = None,
) -> ConstructionSetup:
    """Read the source and load the models named in the configuration.

    Args:
        kind: kind of benchmark.
        config: build configuration.
        source: file, folder or benchmark whose items are read; may differ from `config.source`.
        author: model to use instead of the named author.
        judge: model to use instead of the named judge.

    Raises:
        BadSettings: a name or setting is unknown, or limits are given that apply to no model.
        EmendError: the source or a model cannot be loaded.
    """
    settings = construction_settings(kind, config)
    items = read_item_source(kind, config, source)
    policy = config.policy()
    policy.limit_calls(config.concurrency)
    if author is None:
        author = load_model(config.model, policy, **config.overrides.get(MODEL, {}))
    check_author(config.model, author)
    if judge is None and settings.judge:
        judge = load_model(settings.judge, policy)
    author_fingerprint = model_fingerprint(config.model, author)
    judge_fingerprint: Any = AUTHOR if judge is None else fingerprint(judge, settings.judge)
    refuse_unused_limits(config, config.model, policy)
    return ConstructionSetup(
        kind=kind,
        config=config,
        source_name=source,
        source=items,
        maker=ItemMaker(settings, author, author_fingerprint, judge or author, judge_fingerprint),
        author_fingerprint=author_fingerprint,
        policy=policy,
    )


def check_author(name: str, author: BaseChatModel) -> None:
    """Check that the author is a chat model.

    Raises:
        BadSettings: the author has no chat template.
    """
    if resolve_form(author, "chat") == "plain":
        raise BadSettings(
            f"--model {name} has no chat template, or model.chat=false turns it off: an author "
            "needs chat messages. Name a chat model."
        )
