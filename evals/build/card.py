"""The card of a built benchmark: what it was made of, by which models, what was dropped and why, and its cost."""

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from jinja2 import Environment, StrictUndefined

from emend.evals.data.benchmarks.registry import CARD, BenchmarkFiles
from emend.evals.log.manifest import now
from emend.evals.log.records import replace
from emend.evals.metrics.estimate import Estimate, estimate
from emend.memory.distribution import installed_version
from emend.memory.edit import FrozenModel
from emend.memory.escape import one_line
from emend.memory.retrieval.tokens import words

Status = Literal["draft", "reviewed", "not reviewed"]
EXAMPLES = 3
CARD_TEXT = "card.md"


class FilterCount(FrozenModel):
    """Outcome of a filter for the items that reached it, by their last attempt."""

    name: str
    rejects: str
    reached: int
    passed: Estimate
    rejected: int
    """Attempts that it rejected, earlier ones of items that passed in the end too."""
    published: str = ""


class PromptNote(FrozenModel):
    """A prompt by its id, with the step of a paper that it carries out."""

    name: str
    id: str
    source: str


class Diversity(FrozenModel):
    """How varied the texts are: mean words, distinct pairs of words among all pairs, and the commonest opening."""

    mean_words: float
    distinct_pairs: float
    commonest_opening: str
    share_of_opening: float


class BuildCost(FrozenModel):
    """Calls and tokens of the construction, and money by currency where prices are known."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    money: float | None = None
    currency: str = ""

    def per(self, count: int) -> dict[str, float]:
        """Cost of each of so many items."""
        fields = ("calls", "input_tokens", "output_tokens", "money")
        values = {name: getattr(self, name) for name in fields}
        return {name: round(value / count, 6) for name, value in values.items() if value is not None and count}


class Card(FrozenModel):
    """The card; `status` is `draft` until people have read the items, where the recipe has that step."""

    kind: str
    recipe: str
    status: Status
    content: BenchmarkFiles
    built: str
    """Date and time."""
    emend: str
    source: dict[str, Any]
    language: str
    seed: int
    models: dict[str, str] = {}
    """Author and judge; empty if no model was asked."""
    one_model: bool = False
    """The author also judged what it wrote."""
    prompts: tuple[PromptNote, ...] = ()
    items: int
    kept_share: Estimate
    failed: int = 0
    dropped: dict[str, int] = {}
    """Items by what dropped them: a filter, a repetition, or a reviewer."""
    filters: tuple[FilterCount, ...] = ()
    attempts: int
    cost: BuildCost = BuildCost()
    cost_per_kept: dict[str, float] = {}
    diversity: Diversity | None = None
    examples: tuple[str, ...]
    limits: tuple[str, ...]
    agreement: dict[str, Any] = {}
    """Agreement of the reviewers."""


def write_card(out: Path, **fields: Any) -> Card:
    """Write the card of a benchmark that is built now, for programs and for people, and return it."""
    card = Card(built=now(), emend=installed_version(), **fields)
    replace(out / CARD, card)
    replace(out / CARD_TEXT, card_text(card).encode())
    return card


def measure_diversity(texts: Sequence[str]) -> Diversity | None:
    """The diversity of texts; None without any."""
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
    name: str, outcomes: Mapping[str, bool], rejected: int, rejects: str, published: str = ""
) -> FilterCount:
    """The count of one filter, of the outcomes by case."""
    passed = estimate([float(value) for value in outcomes.values()], list(outcomes))
    return FilterCount(
        name=name, rejects=rejects, reached=len(outcomes), passed=passed, rejected=rejected, published=published
    )


STATUS = {
    "draft": "**Draft.** The recipe ends with people who read every item; nobody has yet (docs/how-to/build.md).",
    "reviewed": "People have read every item; those that they rejected are not in it.",
    "not reviewed": "No person has read the items.",
}
SOURCE = {"source": "", "date": "", "licence": "not stated", "files": {}, "dropped": {}}
TEMPLATE = Path(__file__).with_name("card.md.jinja").read_text(encoding="utf-8")


def card_text(card: Card) -> str:
    """The card for people; texts of models and sources stand in fences, so that nothing in them is markup."""
    environment = Environment(
        trim_blocks=True, lstrip_blocks=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    environment.filters |= {"line": one_line, "percent": percent, "fence": fence}
    count = round((card.kept_share.mean or 0) * card.kept_share.n)
    page = environment.from_string(TEMPLATE)
    return page.render(card=card, count=count, status=STATUS[card.status], source={**SOURCE, **card.source}) + "\n"


def percent(value: Estimate) -> str:
    """A share with its interval and number."""
    if value.mean is None:
        return "-"
    interval = "" if value.low is None or value.high is None else f" [{100 * value.low:.0f}, {100 * value.high:.0f}]"
    return f"{100 * value.mean:.0f}%{interval} of {value.n}"


def fence(text: str) -> str:
    """A text between fences that it does not contain."""
    mark = "```"
    while mark in text:
        mark += "`"
    return f"{mark}text\n{text}\n{mark}"
