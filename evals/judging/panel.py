"""Panel of judges: models, repeats and orders over the same items."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal

from pydantic import model_validator

from emend.agents.judging.prompt_file import JudgePrompt
from emend.graphs.registry import JUDGES
from emend.memory.edit import FrozenModel
from emend.memory.errors import BadSettings

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from emend.agents.providers.policy import CallPolicy
    from emend.graphs.judges.graph import Judge


def load_judge(name: str) -> "Judge":
    """Load a judge by its name or `module:attribute`.

    Raises:
        BadSettings: the judge does not exist, or the object is not a judge.
    """
    judge = JUDGES.load(name)
    if not all(hasattr(judge, part) for part in ("role", "name", "judge")):
        raise BadSettings(
            f"judge '{name}' is {judge!r:.60}, not a Judge: see docs/how-to/judges.md, Your own."
        )
    return judge


class Panel(FrozenModel):
    """Panel of judges: names of the models, repeats, orders (if a judge has two), and combination
    of votes.

    With `batch` False, items are judged one at a time even if the published judge takes several;
    `retries` is the maximum number of retries after an unparsable reply. `second` are the models
    that judge disputes, and `prompts` the user's prompts by kind.

    Raises:
        BadSettings: there is no judge, or a number is invalid.
    """

    judges: tuple[str, ...]
    repeats: int = 1
    both_orders: bool = True
    batch: bool = True
    retries: int = 1
    combine: Literal["majority", "mean"] = "majority"
    second: tuple[str, ...] = ()
    prompts: dict[str, JudgePrompt] = {}

    @model_validator(mode="after")
    def _possible(self) -> "Panel":
        if not self.judges:
            raise BadSettings(
                "no judge is given: name at least one, for example --judge openai:NAME."
            )
        if self.repeats < 1 or not 0 <= self.retries < 10:
            raise BadSettings(
                f"repeats is {self.repeats}, retries {self.retries}: give 1 or more, and 0 to 9."
            )
        if both := {*self.judges} & {*self.second}:
            raise BadSettings(
                f"'{min(both)}' is both a judge and a second judge: name another model with "
                "--second."
            )
        return self

    def load(self, kind: str) -> "Judge":
        """Load the judge of a kind, with the user's prompt if there is one.

        Raises:
            BadSettings: the judge does not exist, or the prompt does not fit it.
        """
        judge = load_judge(kind)
        prompt = self.prompts.get(kind)
        if prompt:
            return judge.with_prompt(prompt)
        return judge

    def orders(self, judge: "Judge") -> tuple[bool, ...]:
        """Return the orders to ask for, as flags that say whether the parts are swapped."""
        if self.both_orders and judge.role.swaps:
            return (False, True)
        return (False,)

    def models(
        self, policy: "CallPolicy | None", settings: Mapping[str, Any]
    ) -> "dict[str, BaseChatModel]":
        """Load the judges' models, by name.

        Raises:
            BadSettings: a model or setting is unknown.
        """
        from emend.agents.llm import load_model

        return {spec: load_model(spec, policy, **settings) for spec in (*self.judges, *self.second)}
