"""Mapping from a run's numbers to published figures; the rules are in `counterparts.toml`."""

import re
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from emend.evals.log.manifest import Manifest
from emend.evals.results.aggregate.columns import MetricRow
from emend.memory.edit import FrozenModel

SERVERS = ("openai:", "vllm:", "sglang:", "completions:", "langchain:")
"""Beginnings of models' names that may end in an address."""


class MethodRule(FrozenModel):
    """An editor is a paper's method where the run's mode, setting and retriever are these; None: whatever they are.

    So it is with `metric`, the published one. `differs` says what is not alike, unless the run has one of the values in
    `unless`: of its mode, embedding or retriever, or of a setting of the editor; a part of the value is enough.
    """

    editor: str
    method: str
    mode: str | None = None
    setting: str | None = None
    retriever: str | None = None
    metric: str | None = None
    differs: str = ""
    unless: dict[str, str] = {}


class MetricRule(FrozenModel):
    """A run's metric is a published one, on some data; see the head of `counterparts.toml`."""

    metric: str
    published: str
    data: str
    mode: str | None = None
    settings: tuple[str, ...] = ()
    setting: str | None = None
    method: str | None = None
    when: dict[str, str] = {}
    n: int | None = None
    differs: str = ""
    judge: str = ""
    """Name of the judge without which a run has no such metric."""
    derived: str = ""
    """Kind of the figure in `derived.DERIVED`, if no metric of the benchmark has it."""


class Rules(FrozenModel):
    """The rules of one paper, and what differs from it in every run."""

    methods: tuple[MethodRule, ...]
    metrics: tuple[MetricRule, ...]
    settings: dict[str, str] = {}
    differs: tuple[str, ...] = ()


class PublishedPlace(NamedTuple):
    """Place of a number in a paper; `method` is empty if the paper has no such method."""

    method: str
    block: tuple[str, ...]
    """Data, setting and metric."""
    n: int | None
    """Number of questions behind the paper's figure, if known."""
    differs: tuple[str, ...]
    shared: bool
    """The figure is not the editor's own: every editor of a run has the same."""


@cache
def _told() -> dict[str, Any]:
    return tomllib.loads((files("emend.evals.results.papers") / "counterparts.toml").read_text(encoding="utf-8"))


@cache
def rules(paper: str) -> Rules:
    """The rules of a paper."""
    return Rules.model_validate(_told()[paper])


def places(paper: str, row: MetricRow, manifest: Manifest) -> Iterator[PublishedPlace]:
    """Places of a run's number in the tables of a paper; none if no rule applies."""
    paper_rules = rules(paper)
    options = manifest.benchmark.get("options") or manifest.config.benchmark_options
    for rule in paper_rules.metrics:
        if rule.metric != row.metric or rule.mode not in (None, row.mode):
            continue
        if rule.settings and row.setting not in rule.settings:
            continue
        if all(value in str(options.get(name, "")).split(",") for name, value in rule.when.items()):
            method, differs = _method(paper_rules, row, manifest, rule.published)
            yield PublishedPlace(
                method=method if rule.method is None else rule.method,
                block=(
                    rule.data,
                    rule.setting if rule.setting is not None else _setting(paper_rules, row),
                    rule.published,
                ),
                n=rule.n,
                differs=tuple(filter(None, (rule.differs, differs if rule.method is None else ""))),
                shared=rule.method is not None,
            )


def _method(paper_rules: Rules, row: MetricRow, manifest: Manifest, published: str) -> tuple[str, str]:
    """The paper's method that an editor is, and what differs from it; empty if the paper has no such method."""
    fingerprint = manifest.editors.get(row.setting, {}).get(row.editor, {})
    editor, config = fingerprint.get("editor", row.editor), manifest.config
    here = (editor, row.mode, _setting(paper_rules, row), config.retriever, published)
    for rule in paper_rules.methods:
        pairs = (rule.editor, rule.mode, rule.setting, rule.retriever, rule.metric)
        if all(want in (None, have) for want, have in zip(pairs, here, strict=True)):
            values = {"mode": row.mode, "embedding": config.embedding, "retriever": config.retriever}
            values |= fingerprint.get("settings") or {}
            alike = any(value in str(values.get(name, "")).lower() for name, value in rule.unless.items())
            return rule.method, "" if alike else rule.differs
    return "", ""


def _setting(paper_rules: Rules, row: MetricRow) -> str:
    return paper_rules.settings.get(row.setting, row.setting)


def same_model(run: str, published: str) -> bool:
    """Return True if a run's model (`hf:FOLDER`, `openai:NAME@URL`) has a name of the paper's model."""
    name = run.removeprefix("langchain:").partition(":")[2]
    name = name.partition("@")[0] if run.startswith(SERVERS) else name
    plain = re.sub(r"[^a-z0-9]", "", name.rstrip("/").rpartition("/")[2].lower())
    return plain in _told()["models"].get(published, ())
