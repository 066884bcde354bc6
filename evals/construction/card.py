"""Card of a built benchmark: its source, models, dropped items with reasons, and cost."""

import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, StrictUndefined

from emend.agents.providers.usage import ProviderUsage
from emend.evals.data.benchmarks.registry import CARD, BenchmarkFiles
from emend.evals.log.manifest import now
from emend.evals.log.records import replace
from emend.evals.metrics.estimate import Estimate, ends_text, estimate
from emend.memory.distribution import installed_version
from emend.memory.edit import FrozenModel
from emend.memory.escape import one_line
from emend.memory.probe import Usage
from emend.memory.retrieval.tokens import words

Status = Literal["draft", "reviewed", "not reviewed"]
EXAMPLES = 3
CARD_TEXT = "card.md"
# Limits of the benchmarks of each kind.
LIMITS: dict[str, tuple[str, ...]] = {
    kind: tuple(texts)
    for kind, texts in tomllib.loads(
        Path(__file__).with_name("limits.toml").read_text(encoding="utf-8")
    ).items()
}


class FilterCount(FrozenModel):
    """Counts of a filter over the items that reached it, by their last attempt.

    If items have several texts, texts are counted instead of items.
    """

    name: str
    rejects: str
    reached: int
    passed: Estimate
    rejected: int | None
    """Number of rejected attempts, including those of items that passed in the end; None if other
    filters count them.
    """
    published: str = ""


class PromptNote(FrozenModel):
    """Name and id of a prompt, and its source: the step of a paper, or the user."""

    name: str
    id: str
    source: str


class Diversity(FrozenModel):
    """Diversity of texts: mean number of words, share of distinct word pairs (distinct-2), and the
    most frequent first three words with their share.
    """

    mean_words: float
    distinct_pairs: float
    commonest_opening: str
    share_of_opening: float


class BuildCost(FrozenModel):
    """Calls and tokens of a construction, and its price if prices are known."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = None
    currency: str = ""

    def per(self, count: int) -> dict[str, float]:
        """Return the cost per item for a number of items; empty for 0 items."""
        fields = ("calls", "input_tokens", "output_tokens", "money")
        values = {name: getattr(self, name) for name in fields}
        return {
            name: round(value / count, 6)
            for name, value in values.items()
            if value is not None and count
        }


def build_cost(
    usages: Iterable[Usage], spent: Mapping[str, ProviderUsage], prices: Mapping[str, Any] | None
) -> BuildCost:
    """Return the cost of a construction.

    Args:
        usages: usage of each item.
        spent: provider usage with its cost, by model.
        prices: the user's price file, read for its currency.
    """
    usage = Usage()
    for each in usages:
        usage = usage.plus(each)
    paid = [each.cost for each in spent.values() if each.cost is not None]
    return BuildCost(
        calls=usage.calls,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        money=sum(paid) if paid else None,
        currency=str((prices or {}).get("currency", "")),
    )


class Card(FrozenModel):
    """Card of a benchmark.

    `status` is `draft` until people have reviewed the items, if the recipe has that step.
    """

    kind: str
    recipe: str
    status: Status
    content: BenchmarkFiles
    built: str
    """Date and time of the build."""
    emend: str
    source: dict[str, Any]
    language: str
    seed: int
    models: dict[str, str] = {}
    """Author and judge; empty if no model was called."""
    one_model: bool = False
    """True if the author also judged its own texts."""
    prompts: tuple[PromptNote, ...] = ()
    items: int
    kept_share: Estimate
    failed: int = 0
    dropped: dict[str, int] = {}
    """Number of dropped items by reason: a filter, repeated text, or reviewers."""
    relations: dict[str, int] = {}
    """Kept items by relation, most frequent first, for kinds whose paper reports these shares."""
    filters: tuple[FilterCount, ...] = ()
    attempts: int
    cost: BuildCost = BuildCost()
    cost_per_kept: dict[str, float] = {}
    steps: tuple[str, ...] = ()
    """Under recipe `paper`, each step of the paper and how it differs here."""
    diversity: Diversity | None = None
    examples: tuple[str, ...]
    limits: tuple[str, ...]
    agreement: dict[str, Any] = {}
    """Inter-annotator agreement of the reviewers."""


def write_card(out: Path, **fields: Any) -> Card:
    """Write the card of a benchmark as JSON and as Markdown, dated now, and return it.

    The card of a construction that kept no item is written as Markdown only, since a folder with a
    JSON card is read as a benchmark; the card of an earlier call is not replaced by it.
    """
    card = Card(built=now(), emend=installed_version(), **fields)
    is_benchmark = bool(card.content.files)
    if is_benchmark:
        replace(out / CARD, card)
    if is_benchmark or not (out / CARD).exists():
        replace(out / CARD_TEXT, card_text(card).encode())
    return card


def measure_diversity(texts: Sequence[str]) -> Diversity | None:
    """Return the diversity of texts; None if all are empty."""
    tokens = [words(text) for text in texts if text.strip()]
    if not tokens:
        return None
    pairs = [pair for each in tokens for pair in zip(each, each[1:], strict=False)]
    opening, count = Counter(" ".join(each[:3]) for each in tokens).most_common(1)[0]
    return Diversity(
        mean_words=round(sum(map(len, tokens)) / len(tokens), 1),
        distinct_pairs=round(len(set(pairs)) / max(1, len(pairs)), 3),
        commonest_opening=opening,
        share_of_opening=round(count / len(tokens), 3),
    )


def count_filter(
    name: str,
    outcomes: Mapping[str, Sequence[bool]],
    rejected: int | None,
    rejects: str,
    published: str = "",
) -> FilterCount:
    """Return the counts of a filter.

    Args:
        name: name of the filter.
        outcomes: outcomes by case; the confidence interval is clustered by case.
        rejected: number of rejected attempts; None if other filters count them.
        rejects: description of what the filter rejects.
        published: rate that the paper reports.
    """
    pairs = [(float(value), case) for case, values in outcomes.items() for value in values]
    passed = estimate([value for value, _ in pairs], [case for _, case in pairs])
    return FilterCount(
        name=name,
        rejects=rejects,
        reached=len(pairs),
        passed=passed,
        rejected=rejected,
        published=published,
    )


STATUS = {
    "draft": "**Draft.** The recipe ends with a human review of every item, which has not taken "
    "place yet (docs/how-to/build.md).",
    "reviewed": "People have reviewed every item; rejected items were removed.",
    "not reviewed": "The items have not been reviewed by people.",
}
SOURCE = {
    "source": "",
    "date": "",
    "licence": "not stated",
    "files": {},
    "dropped": {},
    "unread": {},
}
TEMPLATE = Path(__file__).with_name("card.md.jinja").read_text(encoding="utf-8")


def card_text(card: Card) -> str:
    """Return the card as Markdown; texts of models and sources are fenced, so that they are not
    rendered as markup.
    """
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters |= {"line": one_line, "percent": percent, "fence": fence}
    count = round((card.kept_share.mean or 0) * card.kept_share.n)
    page = environment.from_string(TEMPLATE)
    return (
        page.render(
            card=card, count=count, status=STATUS[card.status], source={**SOURCE, **card.source}
        )
        + "\n"
    )


def percent(value: Estimate) -> str:
    """Return a share as a percentage with its confidence interval and sample size."""
    if value.mean is None:
        return "-"
    scaled = value.scaled(100)
    return f"{scaled.mean:.0f}%{ends_text(scaled.low, scaled.high, '.0f')} of {value.n}"


def fence(text: str) -> str:
    """Return a text in a code fence longer than any fence inside it."""
    mark = "```"
    while mark in text:
        mark += "`"
    return f"{mark}text\n{text}\n{mark}"
