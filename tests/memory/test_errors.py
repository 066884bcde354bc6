"""What a validation refuses is said in a sentence with the remedy, not in pydantic's words."""

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from emend.memory.errors import SENTENCES, problem_of


class Row(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str = Field("a", min_length=1, max_length=3, pattern="^[a-z]*$")
    size: int = Field(1, ge=1, le=9)
    share: Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)] = 0.5
    on: bool = True
    words: list[str] = Field([], max_length=2)
    pair: tuple[str, ...] = ("a",)
    form: Literal["plain", "chat"] = "plain"
    table: dict[str, int] = {}
    place: Path = Path()
    kept: None = None

    @field_validator("name")
    @classmethod
    def _not_bad(cls, name: str) -> str:
        if name == "bad":
            raise ValueError("'bad' is taken: choose another name.")
        return name


def problem(fields: dict[str, Any]) -> str:
    with pytest.raises(ValidationError) as caught:
        Row.model_validate(fields)
    return problem_of(caught.value.errors()[0])


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"nam": "a"}, "it is unknown"),
        ({"name": 1}, "it must be a text"),
        ({"name": ""}, "it must have 1 characters or more"),
        ({"name": "abcd"}, "it must have 3 characters or fewer"),
        ({"name": "A"}, "it must be of the form ^[a-z]*$"),
        ({"name": "bad"}, "'bad' is taken: choose another name"),
        ({"size": "three"}, "it must be a whole number"),
        ({"size": 1.5}, "it must be a whole number"),
        ({"size": 0}, "it must be 1 or more"),
        ({"size": 10}, "it must be 9 or less"),
        ({"share": "much"}, "it must be a number"),
        ({"share": 0}, "it must be more than 0"),
        ({"share": 1}, "it must be less than 1"),
        ({"share": float("nan")}, "it must be a finite number"),
        ({"on": "perhaps"}, "it must be true or false"),
        ({"words": "a"}, "it must be a list"),
        ({"words": ["a", "b", "c"]}, "it must have 2 or fewer"),
        ({"pair": "a"}, "it must be a list"),
        ({"form": "chatt"}, "it must be 'plain' or 'chat'"),
        ({"table": 1}, "it must be an object of fields and values"),
        ({"place": 1}, "it must be a path"),
        ({"kept": 1}, "it must be left out"),
    ],
)
def test_a_problem_is_a_sentence_that_says_what_to_write(fields: dict[str, Any], sentence: str) -> None:
    assert problem(fields) == sentence


def test_what_has_no_sentence_keeps_the_words_of_the_validation() -> None:
    assert "date_type" not in SENTENCES
    assert problem_of({"type": "date_type", "msg": "Input should be a valid date."}) == "Input should be a valid date"
