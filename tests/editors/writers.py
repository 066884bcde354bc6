"""Small settings under which ROME, MEMIT and their like write to random models, and the models they are tried on."""

from emend.editors.base import Materials
from emend.editors.conformance import CAPITAL
from emend.memory.edit import Edit, Triplet

ARCHITECTURES = ["gpt2", "llama", "gptj", "gpt_neox", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "phi"]
SETTINGS = {
    "layers": [0],
    "steps": 8,
    "rate": 0.3,
    "clamp": 20.0,
    "prefixes": ["So it is. ", "The river is long. "],
    "statistics": "identity",
}
SAME_SUBJECT = Edit.from_triplet(
    Triplet(subject=CAPITAL.subject, relation="neighbour", object="Old Sorn"), "The neighbour of {} is"
)


def editor(method, model, **settings):
    """The method on that model, with what is changed in the settings."""
    return method(Materials(model=model, settings=SETTINGS | settings))
