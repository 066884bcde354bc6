"""Registry of editors by name; it lists all shipped methods."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from emend.memory.registry import Registry

if TYPE_CHECKING:  # importing the registry must not import LangChain
    from emend.editors.base import Editor, EditorContext

EDITORS: "Registry[Callable[[EditorContext], Editor]]" = Registry(
    kind="editor",
    group="emend.editors",
    interfaces=(("edit", "fingerprint"),),
    beside=__file__,
)


def default_editors(models: Sequence[str]) -> tuple[str, ...]:
    """Return the default editors: the unedited model and three editors that suit the models.

    All are memory-based and need one model call per probe: in-context editing with the right fact,
    RAG, and a fourth that is IKE for local models and chain of thought for a provider's models,
    since small models get lost in long reasoning.
    """
    from emend.agents.llm import is_local_spec

    fourth = "ike" if any(map(is_local_spec, models)) else "cot"
    return ("unedited", "in_context", "rag", fourth)
