"""Options of a generated stream."""

from typing import Literal

from pydantic import Field

from emend.memory.edit import FrozenModel


class StreamOptions(FrozenModel):
    """Options of a generated stream; shares are of all turns, and what they leave are new facts."""

    turns: int = Field(default=100, ge=2, le=200_000, description="Number of turns.")
    facts: str = Field(
        default="", description="Table of subject, relation and object to tell; default: an invented world."
    )
    updates: float = Field(default=0.3, ge=0, le=1, description="Share of turns that update or correct a fact.")
    deletions: float = Field(default=0.1, ge=0, le=1, description="Share of turns that take a fact back.")
    rules: float = Field(default=0.08, ge=0, le=1, description="Share of turns with a rule for a derived fact.")
    backdated: float = Field(default=0.04, ge=0, le=1, description="Share of turns with a former value of a fact.")
    chatter: float = Field(default=0.1, ge=0, le=1, description="Share of turns that state nothing.")
    questions: float = Field(default=0.4, gt=0, le=5, description="Number of questions per turn.")
    users: int = Field(default=1, ge=1, le=100, description="Number of users, each with facts of its own.")
    difficulty: Literal["easy", "normal", "hard"] = Field(
        default="normal",
        description="Wordings and chatter; easy: one wording of each relation; normal: three; hard: also chatter that "
        "names facts.",
    )
    seed: int = Field(default=0, description="Random seed.")
