"""The toy model in whose forms each method can be asked."""

from langchain_core.language_models import BaseChatModel

from emend.editors.conformance_toys import ReadingModel, StepwiseModel, ToolModel

SPEAKERS: dict[str, type[BaseChatModel]] = {"mello": StepwiseModel, "cot": StepwiseModel, "agent": ToolModel}
"""Which toy model a method needs; the others do with `ReadingModel`."""


def speaker_for(name: str) -> BaseChatModel:
    """A model in whose forms the method can be asked."""
    return SPEAKERS.get(name, ReadingModel)()
