"""Registry of editors by name, the only list of methods."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from emend.memory.registry import Registry

if TYPE_CHECKING:  # listing methods must not import LangChain
    from emend.editors.base import Editor, EditorContext

MEMORY, WEIGHTS = "emend.editors.memory_based.", "emend.editors.parametric."
EDITORS: "Registry[Callable[[EditorContext], Editor]]" = Registry(
    kind="editor",
    group="emend.editors",
    interfaces=(("edit", "fingerprint"),),
    builtin={
        "unedited": (MEMORY + "unedited:Unedited", "The model as it is."),
        "in_context": (MEMORY + "in_context:InContext", "Puts the right fact before the probe; also as ice."),
        "rag": (MEMORY + "rag:Rag", "Retrieves facts from the memory for each probe."),
        "ike": (MEMORY + "ike:Ike", "As rag, with demonstrations before the fact (Zheng et al. 2023)."),
        "serac": (
            MEMORY + "serac:Serac",
            "Shows an edit only where a trained classifier finds it in scope (Mitchell et al. 2022).",
        ),
        "crag": (MEMORY + "crag:Crag", "Judges what it retrieves, refines it or searches elsewhere (Yan et al. 2024)."),
        "cot": (MEMORY + "chain_of_thought:Cot", "As rag, and the model thinks step by step before it answers."),
        "input_aug": (
            MEMORY + "chain_of_thought:InputAug",
            "Puts all new facts before every probe; with chain=true the model thinks first.",
        ),
        "mello": (
            MEMORY + "mello:Mello",
            "Takes a question in steps, checks each against the memory (Zhong et al. 2023).",
        ),
        "kg_walk": (
            MEMORY + "kg_walk:KgWalk",
            "Plans a chain of relations, and walks it over the edits (after Chen et al. 2024, Lu et al. 2025).",
        ),
        "agent": (MEMORY + "agent:Agent", "Gives the model tools over the memory, and lets it decide."),
        "ft": (WEIGHTS + "finetune:FineTuning", "Trains down-projections on the new facts (FT-M, FT-L's constraint)."),
        "lora": (WEIGHTS + "lora:Lora", "Trains low-rank adapters on the new facts (Hu et al. 2022)."),
        "qlora": (WEIGHTS + "lora:QLora", "As lora, over a model in 4 bits (Dettmers et al. 2023)."),
        "rome": (WEIGHTS + "rome:Rome", "Writes one key and value into one layer (Meng et al. 2022)."),
        "r_rome": (WEIGHTS + "rome:RRome", "As rome, with one averaged key throughout (Gupta et al. 2024)."),
        "memit": (WEIGHTS + "memit:Memit", "Writes many edits into several layers (Meng et al. 2023)."),
        "emmet": (WEIGHTS + "emmet:Emmet", "As memit, and gives each key its value (Gupta et al. 2024)."),
        "ultraedit": (
            WEIGHTS + "ultraedit:UltraEdit",
            "Normalises gradients over all turns, in closed form (Gu et al. 2025).",
        ),
        "grace": (
            WEIGHTS + "lifelong.grace:Grace",
            "Keeps trained values in a codebook beside a layer, by the prompt's key (Hartvigsen et al. 2023).",
        ),
        "wise": (
            WEIGHTS + "lifelong.wise:Wise",
            "Trains a side copy of one matrix, and routes prompts that it changes much to it (Wang et al. 2024).",
        ),
        "unke": (
            WEIGHTS + "documents.unke:Unke",
            "Trains a block to give a value from which a whole document follows (Deng et al. 2024).",
        ),
        "anyedit": (
            WEIGHTS + "documents.anyedit:AnyEdit",
            "As unke or memit, with a value for each window of a long target (Jiang et al. 2025).",
        ),
        "alphaedit": (WEIGHTS + "alphaedit:AlphaEdit", "As memit, in the null space of usual keys (Fang et al. 2025)."),
    },
    aliases={"ice": "in_context"},
    unlisted={"build": "emend.editors.construction:Construction"},
)
