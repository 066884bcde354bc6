"""Runs that are half done and go on after a setting, a file, a model or an encoder changed."""

import json
import math
import random
from collections.abc import Callable, Iterator
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.lines import RECORDS
from emend.memory.errors import EmendError
from scripts.nightly.spoiled.encoders import write_adapter
from scripts.nightly.spoiled.interrupts import outcomes
from scripts.nightly.spoiling import Case
from tests.fakes import tiny_random_lm
from tests.memory.tiny import tiny_bert

Change = Callable[[Path, dict[str, Any]], dict[str, Any]]
RAG = {"editors": ("rag",), "benchmark": "tinyworld", "limit": 4, "concurrency": 1}
FT = RAG | {"editors": ("ft",), "overrides": {"ft": {"num_steps": 1}}, "limit": 2}
INSTRUCTIONS = '[efficacy]\ninstruction = "Say it shortly."\n'
SETTINGS: dict[str, dict[str, Any]] = {
    "seed": {"seed": 3}, "limit": {"limit": 3}, "no limit": {"limit": None}, "mode": {"mode": "single"},
    "sequential": {"mode": "sequential"}, "retriever": {"retriever": "bm25"}, "embedding": {"embedding": "lexical"},
    "template": {"prompt_template": "brief"}, "protocols": {"protocols": ("contains",)}, "repeats": {"repeats": 2},
    "wrong before": {"count_only": "wrong_before"}, "temperature": {"overrides": {"model": {"temperature": 1.5}}},
    "setting of the editor": {"overrides": {"rag": {"top_k": 1}}}, "another editor": {"editors": ("rag", "unedited")},
    "editors exchanged": {"editors": ("unedited",)}, "preset": {"preset": "paper"}, "form": {"form": "chat"},
    "setting": {"settings": ("document",)}, "tiny": {"model": "tiny"}, "share": {"share": "1/2"},
    "concurrency": {"concurrency": 2}, "failures": {"fail_on_error": "false"}, "calls": {"max_calls": 5},
    "threads": {"workers": "threads"}, "cut": {"embedding": "cut:{encoder}"},
    "ability": {"ability": ("built_in",)}, "passages": {"perplexity_text": "none"},
}  # fmt: skip


def changed_settings(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield resumptions of half a run after a change: refused, or as if it was never interrupted."""
    changes: dict[str, Change] = {name: partial(with_settings, more) for name, more in SETTINGS.items()}
    changes |= {
        "weights of the model": weights_of("model"), "weights of the encoder": weights_of("encoder"),
        "weights of the adapter": weights_of("adapter", "adapter_model.safetensors"),
        "settings of the adapter": with_alpha, "chat template": with_template, "tokenizer": with_tokenizer,
        "instructions": with_instructions, "passages of another text": with_passages, "settings file": with_toml,
        "prompt of the encoder": with_encoder_prompt, "encoder's window": with_window,
        "folder renamed": renamed,
    }  # fmt: skip
    for number, (name, change) in enumerate(islice(cycle(changes.items()), count)):
        folder = root / str(number)
        yield f"{name} {number}", partial(resume_changed, folder, change)


def resume_changed(root: Path, change: Change) -> None:
    """Resume half a run after a change; unless refused, its records are those of a whole run with or without it."""
    root.mkdir()
    fields = prepare(root, change)
    config = RunConfig.model_validate(fields)
    run(config, root / "run")
    before = outcomes(root / "run")
    lines = (root / "run" / RECORDS).read_bytes().splitlines(keepends=True)
    (root / "run" / RECORDS).write_bytes(b"".join(lines[: len(lines) // 2]) + lines[len(lines) // 2][:40])
    kept = (root / "run" / RECORDS).read_bytes()
    config = RunConfig.model_validate(change(root, fields))
    try:
        run(config, root / "run")
    except EmendError:
        assert (root / "run" / RECORDS).read_bytes().startswith(kept[:-40]), "a refused run lost records"
        raise
    after = outcomes(root / "run")
    if not equal(after, before):
        run(config, root / "new")
        assert equal(after, outcomes(root / "new")), "records of two configurations are mixed"


def equal(first: Any, second: Any) -> bool:
    """Return whether two values are equal but for the rounding of numbers, which depends on the size of a batch."""
    if isinstance(first, dict) and isinstance(second, dict):
        return first.keys() == second.keys() and all(equal(first[name], second[name]) for name in first)
    if isinstance(first, list) and isinstance(second, list):
        return len(first) == len(second) and all(map(equal, first, second))
    if isinstance(first, float) and isinstance(second, float):
        return math.isclose(first, second, rel_tol=1e-4, abs_tol=1e-5)
    return bool(first == second)


def prepare(root: Path, change: Change) -> dict[str, Any]:
    """Make a model, an encoder with an adapter and files of a run, and return its settings."""
    model = tiny_random_lm("llama", root, window=512).rename(root / "model")
    encoder, adapter = tiny_bert(root / "encoder"), root / "adapter"
    write_adapter(adapter)
    (root / "instructions.toml").write_text(INSTRUCTIONS)
    (root / "passages.txt").write_text("The river of a city is in the capital.\n" * 3)
    (root / "ft.toml").write_text("num_steps = 1\n")
    if change in (with_passages, with_toml):
        return FT | {"model": f"hf:{model}", "perplexity_text": str(root / "passages.txt")}
    fields = RAG | {"model": f"hf:{model}", "embedding": f"{encoder}+{adapter}"}
    return fields | ({"prompts": str(root / "instructions.toml")} if change is with_instructions else {})


def with_settings(more: dict[str, Any], root: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Change settings."""
    filled = {name: value.format(encoder=root / "encoder") if value == "cut:{encoder}" else value
              for name, value in more.items()}  # fmt: skip
    return fields | filled


def weights_of(name: str, file: str = "model.safetensors") -> Change:
    """Return the change of one number of a model's weights."""

    def change(root: Path, fields: dict[str, Any]) -> dict[str, Any]:
        held = load_file(root / name / file)
        first = sorted(held)[0]
        held[first] = held[first].clone()
        held[first].view(-1)[0] += torch.tensor(0.5)
        save_file(held, root / name / file, {"format": "pt"})
        return fields

    return change


def with_json(file: Path, more: dict[str, Any]) -> None:
    """Change fields of a JSON file."""
    file.write_text(json.dumps(json.loads(file.read_text()) | more))


def with_alpha(root: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Change the scale of the adapter."""
    with_json(root / "adapter" / "adapter_config.json", {"lora_alpha": 9})
    return fields


def with_template(root: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Give the model a chat template."""
    text = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}"
    (root / "model" / "chat_template.jinja").write_text(text)
    return fields


def with_tokenizer(root: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Let the model's tokenizer write all in lower case."""
    with_json(root / "model" / "tokenizer.json", {"normalizer": {"type": "Lowercase"}})
    return fields


def with_instructions(root: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Change the file of instructions."""
    (root / "instructions.toml").write_text(INSTRUCTIONS.replace("shortly", "at length"))
    return fields


def with_passages(root: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Change the text for the perplexity."""
    (root / "passages.txt").write_text("A capital of the river.\n" * 5)
    return fields


def with_toml(root: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Change a setting of the editor."""
    return fields | {"overrides": {"ft": {"num_steps": 2}}}


def with_encoder_prompt(root: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Give the encoder a prompt for queries."""
    (root / "encoder" / "config_sentence_transformers.json").write_text(json.dumps({"prompts": {"query": "query : "}}))
    return fields


def with_window(root: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Let the encoder read less of a text."""
    with_json(root / "encoder" / "tokenizer_config.json", {"model_max_length": 8})
    return fields


def renamed(root: Path, fields: dict[str, Any]) -> dict[str, Any]:
    """Move the model to another folder."""
    return fields | {"model": f"hf:{(root / 'model').rename(root / 'moved')}"}
