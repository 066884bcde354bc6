"""The editors by name; the only list of methods there is."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from emend.memory.registry import Registry

if TYPE_CHECKING:  # listing methods must not import LangChain
    from emend.editors.base import Editor, Materials

EDITORS: "Registry[Callable[[Materials], Editor]]" = Registry(
    kind="editor",
    group="emend.editors",
    builtin={
        "unedited": ("emend.editors.unedited:Unedited", "The model as it is."),
        "in_context": ("emend.editors.in_context:InContext", "The right fact is put before the probe."),
        "rag": ("emend.editors.remembering:Rag", "Facts are kept in the memory and retrieved for each probe."),
        "ike": ("emend.editors.remembering:Ike", "As rag, with solved examples before the fact (Zheng et al. 2023)."),
        "ft": (
            "emend.editors.finetune:FineTuning",
            "Trains down-projections on the new facts (FT-M, FT-L's constraint).",
        ),
    },
)
