"""The card as a page of Markdown."""

from pathlib import Path

from jinja2 import Environment, StrictUndefined

from emend.evals.build.card import Card
from emend.evals.metrics.estimate import Estimate
from emend.memory.escape import one_line

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
