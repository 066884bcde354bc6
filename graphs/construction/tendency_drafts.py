"""Questions of tendencies as an author writes them, and sample replies for estimates of cost."""

import re
from typing import Literal

from pydantic import BaseModel, Field

from emend.agents.roles.author import SHIPPED

NO_EVENT = "none"


class TendencyDraft(BaseModel):
    """A question about what an event makes likely, with two opposite options."""

    question: str = Field(
        min_length=1, description="the question, which names whom or what it is about"
    )
    about: str = Field(
        min_length=1, description="whom or what it is about, as the question names it"
    )
    first: str = Field(min_length=1, description="an option, such as: Increase")
    second: str = Field(min_length=1, description="its opposite, such as: Decrease")
    likelier: Literal["first", "second"] = Field(
        default="first",
        description="the option that the event makes likelier; of no meaning out of scope",
    )


class TendencyDrafts(BaseModel):
    """The questions about an event."""

    in_scope: list[TendencyDraft] = Field(
        description="six questions about what the event makes more likely"
    )
    out_of_scope: list[TendencyDraft] = Field(
        description="two questions about what the event leaves as it is"
    )


def sample(prompt: str) -> str:
    """Return ten events, their questions, or a reader's choice, of typical length and such that
    they pass all filters.
    """
    if SHIPPED["tendency_events"].task.partition("{")[0][:40] in prompt:
        region = prompt.rpartition("Region: ")[2].partition("\n")[0]
        topic = prompt.rpartition("Topic: ")[2].partition("\n")[0]
        return "\n".join(event.format(topic=topic, region=region) for event in SAMPLE_EVENTS)
    if SHIPPED["tendency_questions"].task.partition("{")[0][:40] in prompt:
        return _sample_questions(prompt.rpartition("Event: ")[2].partition("\n")[0])
    event, _, rest = prompt.rpartition("Event: ")[2].partition("\n")
    options = dict(zip(("Increase", "Decrease"), re.findall(r"\(([AB])\)", rest), strict=False))
    if "(B) Increase" in rest:
        options = {"Increase": "B"}
    return "C" if event == NO_EVENT or "moons" in rest else options["Increase"]


# Sample events for estimates.
SAMPLE_EVENTS = (
    "Anna Lindqvist opens a school for {topic} with forty places in a former factory of {region}.",
    "Two ministers from {region} sign an agreement on {topic} after nine weeks of talks in Geneva.",
    "Calder Lines buys the largest supplier of its field, Vesk Mills, and moves its seat to "
    "{region}.",
    "A court in {region} forbids the sale of products by Ister Rail until a new permit is granted.",
    "Researchers led by Kofi Mensah publish the complete archive of their {topic} project on "
    "Monday.",
    "The union of drivers in Port Vesk begins a strike that no other trade has joined so far.",
    "Mayor Ines Rove bans heavy lorries from the old bridge and its surroundings at night.",
    "Heavy storms close every airport on the coast of {region}, including Halden and Brask.",
    "Luis Vera resigns as chairman of Orsa Bank, whose board names nobody in his place.",
    "Volunteers plant one million trees along both banks of the River Tarn within a single "
    "weekend.",
)


def _sample_questions(event: str) -> str:
    name = next(iter(re.findall(r"(?<=\s)[A-Z]\w+", event)), event.partition(" ")[0])
    subjects = (name, name, name, name, "Kesselby", "Ostmark")
    nouns = (
        "income",
        "number of visitors",
        "share of young members",
        "demand for places",
        "rent",
        "traffic",
    )
    drafts = [
        TendencyDraft(
            question=f"How might the {noun} of {subject} tend to change within a year?",
            about=subject, first="Increase", second="Decrease",
        )
        for subject, noun in zip(subjects, nouns, strict=True)
    ]  # fmt: skip
    planets = [
        TendencyDraft(
            question=f"How might the number of moons of {planet} tend to change?",
            about=planet, first="Increase", second="Decrease",
        )
        for planet in ("Saturn", "Jupiter")
    ]  # fmt: skip
    return TendencyDrafts(in_scope=drafts, out_of_scope=planets).model_dump_json()
