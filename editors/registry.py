"""Registry of editors by name; it lists all shipped methods."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from emend.memory.registry import Registry

if TYPE_CHECKING:  # importing the registry must not import LangChain
    from emend.editors.base import Editor, EditorContext

MEMORY, WEIGHTS = "emend.editors.memory_based.", "emend.editors.parametric."
EDITORS: "Registry[Callable[[EditorContext], Editor]]" = Registry(
    kind="editor",
    group="emend.editors",
    interfaces=(("edit", "fingerprint"),),
    builtin={
        "unedited": (MEMORY + "unedited:Unedited", "The unmodified model."),
        "in_context": (
            MEMORY + "in_context:InContext",
            "Puts the relevant fact into the prompt, as an upper bound (ICE).",
        ),
        "rag": (MEMORY + "rag:Rag", "Retrieves facts from the memory for each probe."),
        "ike": (
            MEMORY + "ike:Ike",
            "Like rag, with demonstrations before the fact (Zheng et al. 2023).",
        ),
        "serac": (
            MEMORY + "serac:Serac",
            "Shows an edit only if a trained classifier finds the probe in its scope (Mitchell et "
            "al. 2022).",
        ),
        "crag": (
            MEMORY + "crag:Crag",
            "Evaluates retrieved facts, then refines them or searches another source (Yan et al. "
            "2024).",
        ),
        "cot": (
            MEMORY + "chain_of_thought:Cot",
            "Like rag, with chain of thought before the answer.",
        ),
        "input_aug": (
            MEMORY + "chain_of_thought:InputAug",
            "Puts all new facts into every prompt; with chain=true also uses chain of thought.",
        ),
        "mello": (
            MEMORY + "mello:Mello",
            "Decomposes a question, and checks each step against the memory (Zhong et al. 2023).",
        ),
        "kg_walk": (
            MEMORY + "kg_walk:KgWalk",
            "Plans a chain of relations, and follows it through the edits (after Chen et al. "
            "2024, Lu et al. 2025).",
        ),
        "agent": (
            MEMORY + "agent:Agent",
            "Gives the model tools to search the memory, and lets it decide when to use them.",
        ),
        "ft": (
            WEIGHTS + "finetune:FineTuning",
            "Fine-tunes down-projections on the new facts (FT-M, with FT-L's norm constraint as "
            "an option).",
        ),
        "lora": (
            WEIGHTS + "lora:Lora",
            "Trains low-rank adapters on the new facts (Hu et al. 2022).",
        ),
        "qlora": (
            WEIGHTS + "lora:QLora",
            "Like lora, on a model quantised to 4 bits (Dettmers et al. 2023).",
        ),
        "rome": (
            WEIGHTS + "rome:Rome",
            "Writes one key-value pair into one layer (Meng et al. 2022).",
        ),
        "r_rome": (
            WEIGHTS + "rome:RRome",
            "Like rome, with the averaged key in the whole update (Gupta et al. 2024).",
        ),
        "memit": (
            WEIGHTS + "memit:Memit",
            "Writes many edits into several layers (Meng et al. 2023).",
        ),
        "emmet": (
            WEIGHTS + "emmet:Emmet",
            "Like memit, with equality constraints on keys and values (Gupta et al. 2024).",
        ),
        "ultraedit": (
            WEIGHTS + "ultraedit:UltraEdit",
            "Computes updates in closed form from gradients normalised over all edits so far (Gu "
            "et al. 2025).",
        ),
        "grace": (
            WEIGHTS + "lifelong.grace:Grace",
            "Stores trained values in a codebook at a layer, selected by the prompt's key "
            "(Hartvigsen et al. 2023).",
        ),
        "wise": (
            WEIGHTS + "lifelong.wise:Wise",
            "Trains a copy of one matrix as a side memory, and routes prompts to it by its "
            "activation (Wang et al. 2024).",
        ),
        "unke": (
            WEIGHTS + "documents.unke:Unke",
            "Trains a block to output a value that makes the model generate a whole document "
            "(Deng et al. 2024).",
        ),
        "anyedit": (
            WEIGHTS + "documents.anyedit:AnyEdit",
            "Like unke or memit, with one value per window of a long target (Jiang et al. 2025).",
        ),
        "alphaedit": (
            WEIGHTS + "alphaedit:AlphaEdit",
            "Like memit, projected onto the null space of preserved keys (Fang et al. 2025).",
        ),
    },
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
