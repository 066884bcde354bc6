"""Seconds per edit and memory on a random model of a large model's shape: ROME one by one, MEMIT many at once.

    python scripts/benchmarks/bench_large.py --device cuda --dtype bfloat16 --edits 1000

The default shape is that of a Llama with 7 billion weights. With `--width 64 --inner 160 --layers 8 --heads 4
--vocabulary 1000 --device cpu --dtype float32 --edits 8` it runs anywhere, to see that it does.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

import torch

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.cost import Meter
from emend.editors.numerics.architectures import find_architecture
from emend.editors.numerics.collect_covariance import collect_covariance
from emend.editors.parametric.memit import Memit
from emend.editors.parametric.rome import Rome
from emend.memory.edit import Edit, Triplet

CITIES = ("New Sandport", "Old Kestrel Bay", "Thornmere upon Wye", "Vell")
PREFIXES = tuple(f"{start} was there, and the river was long. " for start in ("The man", "Therefore it", "I think"))
SEARCH = {
    "v_num_grad_steps": 25,
    "v_lr": 0.5,
    "kl_factor": 0.0625,
    "v_weight_decay": 1e-3,
    "clamp_norm_factor": 4.0,
    "stop_loss": 0.0,
}
"""Those of 7B models; a random model never stops early."""


def edits(count: int) -> list[Edit]:
    """Counterfactual homes of so many people."""
    return [
        Edit.from_triplet(
            Triplet(subject=f"Ada Marlowe {n}", relation="home", object=CITIES[n % 4]), "{} lives in the city of"
        )
        for n in range(count)
    ]


def corpus(count: int) -> list[str]:
    """Texts about them."""
    return [f"{edit.text} The river was long and the people of the town knew it well." for edit in edits(count)]


def make_model(folder: Path, chosen: argparse.Namespace) -> None:
    """A random Llama of the chosen shape, made on the device, and a tokenizer that knows the edits' words."""
    from tokenizers import ByteLevelBPETokenizer
    from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

    bpe = ByteLevelBPETokenizer()
    bpe.train_from_iterator([*corpus(200), *PREFIXES], vocab_size=600, special_tokens=["</s>"], show_progress=False)
    bpe.save(str(folder / "raw.json"))
    PreTrainedTokenizerFast(
        tokenizer_file=str(folder / "raw.json"), eos_token="</s>", bos_token="</s>"
    ).save_pretrained(folder)
    config = LlamaConfig(
        vocab_size=chosen.vocabulary,
        hidden_size=chosen.width,
        intermediate_size=chosen.inner,
        num_hidden_layers=chosen.layers,
        num_attention_heads=chosen.heads,
        max_position_embeddings=2048,
    )
    torch.manual_seed(0)
    with torch.device(chosen.device):
        model: Any = LlamaForCausalLM(config)
    model.to(getattr(torch, chosen.dtype)).save_pretrained(folder)


def measure(name: str, lm: Any, count: int, work: Any) -> Any:
    """What came of it; prints seconds, and how far memory rose."""
    with Meter(alone=True, lm=lm) as meter:
        told = work()
    memory = "untold" if meter.peak_bytes is None else f"+{meter.peak_bytes / 1e9:.2f} GB"
    each, cpu = meter.seconds / count, meter.cpu_seconds / count
    print(f"{name}: {each:.3f} s each, {cpu:.3f} CPU s each, memory {memory}", flush=True)
    return told


def bench(chosen: argparse.Namespace, folder: Path) -> None:
    """Statistics, then search and write of both methods apart, so that it is seen what takes the time."""
    make_model(folder, chosen)
    model: Any = load_model(f"hf:{folder}", device=chosen.device, dtype=chosen.dtype)
    lm = model.lm
    print(f"{sum(p.numel() for p in lm.model.parameters()) / 1e9:.2f}e9 weights, {chosen.dtype}, {lm.device}")
    _method(Rome, [5], min(20, chosen.edits), model, chosen, folder / "stats")
    _method(Memit, [4, 5, 6, 7, 8], chosen.edits, model, chosen, folder / "stats")


def _method(method: Any, layers: list[int], count: int, model: Any, chosen: argparse.Namespace, folder: Path) -> None:
    lm, every, texts = model.lm, edits(count), corpus(chosen.texts)
    layers = [layer for layer in layers if layer < chosen.layers]
    paths = find_architecture(lm.model)
    name = f"{method.name}, layers {layers}"
    measure(f"{name}, statistics, a text", lm, len(texts), lambda: collect_covariance(lm, paths, layers, texts, folder))
    own: dict[str, Any] = SEARCH | {"layers": layers, "prefixes": PREFIXES, "covariance": str(folder)}
    editor = measure(f"{name}, factors", lm, 1, lambda: method(EditorContext(model=model, settings=own)))
    measure(f"{name}, first edit", lm, 1, lambda: editor.solve(every[:1]))
    found = measure(f"{name}, search, {count} edits", lm, count, lambda: editor.search(every))
    measure(f"{name}, write, {count} edits", lm, count, lambda: editor.deltas(every, found))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("width", 4096), ("inner", 11008), ("layers", 32), ("heads", 32), ("vocabulary", 32000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--edits", type=int, default=1000, help="of MEMIT; ROME does 20 at most")
    parser.add_argument("--texts", type=int, default=2000)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--dtype", default="bfloat16")
    with tempfile.TemporaryDirectory() as folder:
        bench(parser.parse_args(), Path(folder))


if __name__ == "__main__":
    main()
