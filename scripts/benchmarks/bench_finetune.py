"""Memory of full fine-tuning in bytes a parameter, and its losses beside those of Adam in float32.

    python scripts/benchmarks/bench_finetune.py memory --size 1B
    python scripts/benchmarks/bench_finetune.py memory --size 250M --optimizer adam
    python scripts/benchmarks/bench_finetune.py losses

`memory` trains all weights of a random bfloat16 Llama for two steps of two batches each, and counts all that the
process allocates above what it held before the model was loaded, the model included (on a CPU without pages of the
model's file, which the system may drop); exits 1 above 9.5 bytes a parameter with `adam_8bit`, or where a weight does
not come back. `losses` trains the embedded model on documents of the invented world, by Adam on float32 weights and in
place on bfloat16 ones, with three orders of rows each; exits 1 where the means of an epoch differ by more than the
orders do and by more than 1%.
"""

import argparse
import sys
import tempfile
from pathlib import Path
from statistics import mean
from threading import Event, Thread
from typing import Any

import torch

sys.path.append(str(Path(__file__).resolve().parents[2]))

from emend.agents.llm import load_model
from emend.agents.tiny import texts_of_the_world
from emend.editors.base import EditorContext
from emend.editors.checkpoint.edited_model import digest
from emend.editors.cost import Meter
from emend.editors.numerics.training import training_loop
from emend.editors.parametric.finetune import FineTuning
from emend.memory.edit import Edit
from scripts.benchmarks.bench_large import make_model

SHAPES = {
    "tiny": {"width": 64, "inner": 160, "layers": 4, "heads": 4, "vocabulary": 1000},
    "250M": {"width": 1024, "inner": 2816, "layers": 16, "heads": 16, "vocabulary": 32000},
    "1B": {"width": 2048, "inner": 5632, "layers": 18, "heads": 16, "vocabulary": 32000},
}
MOST = 9.5


class AnonymousMemory(Thread):
    """The highest `RssAnon` of this process inside the `with`, every hundredth of a second, above that at its start."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.start_bytes = self.peak_bytes = _anonymous()
        self.over = Event()

    def run(self) -> None:
        """Look until it is over."""
        while not self.over.wait(0.01):
            self.peak_bytes = max(self.peak_bytes, _anonymous())

    def __enter__(self) -> "AnonymousMemory":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.over.set()
        self.join()
        self.peak_bytes -= self.start_bytes


def _anonymous() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:"))


def documents(count: int, words: int = 24) -> list[Edit]:
    """The beginnings of texts of the invented world."""
    texts = (" ".join(text.split()[:words]) for text in texts_of_the_world())
    return [Edit(form="document", text=text) for text, _ in zip(texts, range(count), strict=False)]


def memory(chosen: argparse.Namespace, size: str) -> bool:
    """Print bytes a parameter; True where they are few enough."""
    with tempfile.TemporaryDirectory() as folder:
        shape = argparse.Namespace(**SHAPES[size], device=chosen.device, dtype="bfloat16")
        make_model(Path(folder), shape)
        device = argparse.Namespace(device=torch.device(chosen.device))
        settings = {"parameters": "all", "num_steps": 2, "lr": 1e-5, "stop_loss": 0.0, "batch_tokens": 16}
        with Meter(alone=True, lm=device) as meter, AnonymousMemory() as anonymous:
            model: Any = load_model(f"hf:{folder}", device=chosen.device, dtype="bfloat16")
            context = EditorContext(model=model, settings=settings | {"optimizer": chosen.optimizer})
            editor, before = FineTuning(context), weights_digest(model.lm)
            edits = documents(2, 8)
            tokens = [len(row.ids) for row in editor.rows(edits)]
            with editor.edit(edits):
                pass
    if weights_digest(model.lm) != before:
        raise SystemExit("the weights did not come back")
    count = sum(weight.numel() for weight in model.lm.model.parameters())
    each = ((meter.peak_bytes or 0) if chosen.device.startswith("cuda") else anonymous.peak_bytes) / count
    print(f"{count / 1e6:.0f}M parameters, {chosen.optimizer}: {each:.1f} bytes a parameter at the most, ", end="")
    print(f"{meter.seconds:.0f} s, {meter.cpu_seconds:.0f} CPU s for two steps of rows of {tokens} tokens")
    return bool(each <= MOST or chosen.optimizer == "adam")


def weights_digest(lm: Any) -> list[str]:
    """A digest of each tensor."""
    return [digest(weight) for weight in lm.model.parameters()]


def losses(dtype: str, optimizer: str, seed: int, chosen: argparse.Namespace) -> list[float]:
    """The mean loss of each epoch."""
    model: Any = load_model("tiny", device=chosen.device, dtype=dtype)
    rows: list[float] = []
    plain = training_loop.mean_losses

    def seen(logits: Any, batch: Any) -> Any:
        found = plain(logits, batch)
        rows.extend(found.tolist())
        return found

    settings = {"parameters": "all", "num_steps": chosen.epochs, "lr": chosen.lr, "stop_loss": 0.0, "batch_size": 8}
    editor = FineTuning(EditorContext(model=model, settings=settings | {"optimizer": optimizer}, seed=seed))
    training_loop.mean_losses = seen
    try:
        editor.solve(documents(chosen.documents))
    finally:
        training_loop.mean_losses = plain
    size = len(rows) // chosen.epochs
    return [mean(rows[start : start + size]) for start in range(0, len(rows), size)]


def compare_losses(chosen: argparse.Namespace) -> bool:
    """Print the losses of both; True where they are the same but for noise."""
    ways = {"adam, float32": ("float32", "adam"), "adam_8bit, bfloat16": ("bfloat16", "adam_8bit")}
    curves = {name: [losses(*way, seed, chosen) for seed in range(3)] for name, way in ways.items()}
    same = True
    for epoch in range(chosen.epochs):
        each = [[curve[epoch] for curve in of_way] for of_way in curves.values()]
        spread = max(max(of_way) - min(of_way) for of_way in each)
        apart = abs(mean(each[0]) - mean(each[1]))
        same &= apart <= max(spread, 0.01 * mean(each[0]))
        texts = [f"{name} {mean(of_way):.4f}" for name, of_way in zip(ways, each, strict=True)]
        print(f"epoch {epoch + 1}: {', '.join(texts)}, apart {apart:.4f}, between orders {spread:.4f}")
    return same


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["memory", "losses"])
    parser.add_argument("--size", choices=list(SHAPES), default="250M")
    parser.add_argument("--optimizer", choices=["adam", "adam_8bit"], default="adam_8bit")
    parser.add_argument("--device", default="cpu")
    for name, default in (("documents", 128), ("epochs", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--lr", type=float, default=1e-4)
    chosen = parser.parse_args()
    if chosen.what == "memory":
        memory(chosen, "tiny")  # loads the libraries
    sys.exit(not (memory(chosen, chosen.size) if chosen.what == "memory" else compare_losses(chosen)))


if __name__ == "__main__":
    main()
