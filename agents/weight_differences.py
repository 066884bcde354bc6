"""Hugging Face repositories that only contain weight differences to another model."""

from pathlib import Path

# Chat format of Tulu; according to its model card the last line break matters.
TULU_FORMAT = r"<|user|>\nQUESTION\n<|assistant|>\n"
_TULU = (
    "recover the weights by scripts/weight_diff.py of github.com/allenai/open-instruct "
    "(weight_diff.py recover --path_raw LLAMA-1 --path_tuned FOLDER --path_diff DIFFERENCE), give "
    f"the tokenizer a chat template of the format {TULU_FORMAT}, and name hf:FOLDER"
)
_VICUNA = "apply it to LLaMA-1 as github.com/lm-sys/FastChat says, and name hf:FOLDER"
# Instructions for creating the weights, by repository whose model card says that it is a
# difference.
DIFFERENCES = {
    "allenai/tulu-7b": _TULU,
    "allenai/tulu-13b": _TULU,
    "allenai/tulu-30b": _TULU,
    "lmsys/vicuna-7b-delta-v0": _VICUNA,
    "lmsys/vicuna-13b-delta-v0": _VICUNA,
    "lmsys/vicuna-13b-delta-v1.1": _VICUNA,
}


def difference_remedy(name: str) -> str:
    """Return why `hf:NAME` is not a model and what to do; "" for any other name, and for a folder
    of that name.
    """
    remedy = DIFFERENCES.get(name.lower(), "")
    if not remedy or Path(name).expanduser().exists():
        return ""
    return f"holds a difference to LLaMA-1, not a model: {remedy}"
