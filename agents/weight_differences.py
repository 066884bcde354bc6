"""Repositories of the Hugging Face hub that hold a difference to a model's weights, which is no model by itself."""

from pathlib import Path

TULU_FORMAT = r"<|user|>\nQUESTION\n<|assistant|>\n"
"""Chat format of Tulu; its card says that the last line break matters."""
_TULU = (
    "recover the weights by scripts/weight_diff.py of github.com/allenai/open-instruct (weight_diff.py recover "
    "--path_raw LLAMA-1 --path_tuned FOLDER --path_diff DIFFERENCE), give the tokenizer a chat template of the format "
    f"{TULU_FORMAT}, and name hf:FOLDER"
)
_VICUNA = "apply it to LLaMA-1 as github.com/lm-sys/FastChat says, and name hf:FOLDER"
DIFFERENCES = {
    "allenai/tulu-7b": _TULU,
    "allenai/tulu-13b": _TULU,
    "allenai/tulu-30b": _TULU,
    "lmsys/vicuna-7b-delta-v0": _VICUNA,
    "lmsys/vicuna-13b-delta-v0": _VICUNA,
    "lmsys/vicuna-13b-delta-v1.1": _VICUNA,
}
"""How the weights are made, by the name of the repository, whose own card says that it is a difference."""


def difference_remedy(name: str) -> str:
    """Return why `hf:NAME` is no model and what to do about it; empty for any other, and for a folder of that name."""
    remedy = DIFFERENCES.get(name.lower(), "")
    if not remedy or Path(name).expanduser().exists():
        return ""
    return f"holds a difference to LLaMA-1, not a model: {remedy}"
