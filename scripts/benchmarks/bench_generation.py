"""Tokens per second of replies whose requests arrive over time: joining a running batch, against static batches.

    python scripts/benchmarks/bench_generation.py [--model tiny|llama] [--seconds 4] [--rounds 3] [--threads 1]

Requests have prompts and replies of very different lengths and come from as many threads, at moments drawn once. Static
batches take what waits, continue it to the end of the longest reply, and only then take the next ones, as servers did
before continuous batching. `llama` is a Llama of 130 million random weights. The ways take turns, so that whatever else
the machine does falls on all of them alike; on a busy machine the time of the processors tells more than that of the
clock. `--seconds 0` lets all requests come at once. Replies must be equal to the character.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from rich.table import Table
from transformers import AutoTokenizer, LlamaConfig, LlamaForCausalLM

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT))

from emend.agents.local.causal_lm import CausalLM  # noqa: E402
from emend.agents.local.chat_model import LocalChatModel  # noqa: E402
from emend.agents.tiny import model_folder  # noqa: E402

WORDS = "The author of Silent River is Karo Benn who was born in Paris capital France and wrote 12 of 345 books".split()


class Wish(NamedTuple):
    """A request: the second at which it comes, its prompt, and the number of new tokens."""

    at: float
    prompt: str
    limit: int


Answer = Callable[[Wish], str]


def wishes(count: int, seconds: float, longest: int) -> list[Wish]:
    """Requests drawn with a fixed seed: most are short, some long, at most that many words and as many new tokens."""
    draw = random.Random(0)
    moments = sorted(draw.uniform(0, seconds) for _ in range(count))
    sizes = [(int(longest ** draw.uniform(0.4, 1)), int(longest ** draw.uniform(0.4, 1))) for _ in range(count)]
    texts = [" ".join(draw.choice(WORDS) for _ in range(words)) for words, _ in sizes]
    return [Wish(at, text, limit) for at, text, (_, limit) in zip(moments, texts, sizes, strict=True)]


class StaticBatches:
    """Continues what waits to the end of its longest reply before it takes more."""

    def __init__(self, lm: CausalLM) -> None:
        self.lm, self.lock = lm, threading.Lock()
        self.waiting: list[tuple[Wish, list[str]]] = []

    def answer(self, wish: Wish) -> str:
        """The reply, from the next batch or the one after it."""
        reply: list[str] = []
        self.waiting.append((wish, reply))
        with self.lock:
            if not reply:
                batch, self.waiting = self.waiting, []
                self.run(batch)
        return reply[0]

    def run(self, batch: Sequence[tuple[Wish, list[str]]]) -> None:
        """Continue these requests, and nothing else meanwhile."""
        with self.lm.replies() as replies:
            for place, (wish, _) in enumerate(batch):
                replies.add(place, self.lm.request(wish.prompt, wish.limit, ()))
            for place, generated in replies.finish():
                batch[place][1].append(generated.text)


class Measured(NamedTuple):
    """Seconds on the clock and of processors, mean seconds from request to reply, and the replies."""

    seconds: float
    work: float
    latency: float
    replies: list[str]


def measure(answer: Answer, asked: Sequence[Wish]) -> Measured:
    """Ask each request at its moment, from a thread of its own."""
    began, worked = time.perf_counter(), time.process_time()

    def ask(wish: Wish) -> tuple[str, float]:
        time.sleep(max(0.0, began + wish.at - time.perf_counter()))
        return answer(wish), time.perf_counter() - began - wish.at

    with ThreadPoolExecutor(len(asked)) as pool:
        replies = list(pool.map(ask, asked))
    latency = sum(seconds for _, seconds in replies) / len(replies)
    return Measured(time.perf_counter() - began, time.process_time() - worked, latency, [text for text, _ in replies])


def count_tokens(lm: CausalLM, asked: Sequence[Wish]) -> int:
    """Number of new tokens of all replies."""
    with lm.replies() as replies:
        for place, wish in enumerate(asked):
            replies.add(place, lm.request(wish.prompt, wish.limit, ()))
        return sum(generated.output_tokens for _, generated in replies.finish())


def random_llama(folder: Path) -> Path:
    """A folder with a Llama of random weights, and the embedded model's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(model_folder())
    torch.manual_seed(0)
    sizes: dict[str, Any] = {
        "hidden_size": 768,
        "intermediate_size": 3072,
        "num_hidden_layers": 12,
        "num_attention_heads": 12,
    }
    config = LlamaConfig(**sizes, vocab_size=16384, max_position_embeddings=2048, initializer_range=0.1)
    tokenizer.save_pretrained(folder)
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def show(found: dict[str, list[Measured]], tokens: int) -> Table:
    """One line per way, of its rounds together."""
    heads = ("way", "tokens/s", "seconds", "CPU s", "CPU ms/token", "mean latency (s)")
    table = Table(*heads, title=f"{tokens:,} tokens a round, {len(next(iter(found.values())))} rounds")
    for name, rounds in found.items():
        seconds, work, latency = (
            sum(value) / len(rounds) for value in zip(*(each[:3] for each in rounds), strict=True)
        )
        figures = f"{tokens / seconds:,.0f}", f"{seconds:.2f}", f"{work:.2f}", f"{1000 * work / tokens:.2f}"
        table.add_row(name, *figures, f"{latency:.2f}")
    return table


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=("tiny", "llama"), default="tiny")
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=4.0, help="time over which the requests come")
    parser.add_argument("--longest", type=int, default=100, help="most words of a prompt, and most new tokens")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1, help="of torch; more only where nothing else runs")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    asked = wishes(chosen.requests, chosen.seconds, chosen.longest)
    with tempfile.TemporaryDirectory() as folder:
        lm = CausalLM(model_folder() if chosen.model == "tiny" else random_llama(Path(folder)), keep_mb=0)
        tokens = count_tokens(lm, asked)
        found = take_turns(lm, asked, chosen.rounds)
    Console().print(show(found, tokens))
    assert len({tuple(each.replies) for rounds in found.values() for each in rounds}) == 1, "replies differ"


def take_turns(lm: CausalLM, asked: Sequence[Wish], rounds: int) -> dict[str, list[Measured]]:
    """Each way's rounds."""
    with closing(LocalChatModel(lm=lm)) as model:
        ways: dict[str, Answer] = {
            "static batches": StaticBatches(lm).answer,
            "continuous": lambda wish: model.invoke(wish.prompt, stop=[], max_new_tokens=wish.limit).text,
        }
        found: dict[str, list[Measured]] = {name: [] for name in ways}
        for turn in range(rounds):
            for name in list(ways)[:: 1 if turn % 2 else -1]:
                found[name].append(measure(ways[name], asked))
    return found


if __name__ == "__main__":
    main()
