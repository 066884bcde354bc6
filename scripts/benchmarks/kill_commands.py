"""Kills and interrupts `emend judge run`, `reproduce`, `build KIND` or `stream run` at random moments, until its end.

SIGKILL, SIGTERM and SIGINT (Ctrl-C) in turn. In the end records, judgements, table and benchmark must be those of an
undisturbed command: none lost, none doubled, and no more calls made again than were under way at a kill.

    python scripts/benchmarks/kill_commands.py judge --kills 50 --seed 0
    python scripts/benchmarks/kill_commands.py reproduce --kills 20
    python scripts/benchmarks/kill_commands.py akew --kills 20
    python scripts/benchmarks/kill_commands.py questions --kills 20
    python scripts/benchmarks/kill_commands.py facts --kills 20
    python scripts/benchmarks/kill_commands.py wikiupdate --kills 20
    python scripts/benchmarks/kill_commands.py docter --kills 20
    python scripts/benchmarks/kill_commands.py elken --kills 20
    python scripts/benchmarks/kill_commands.py chains --kills 20
    python scripts/benchmarks/kill_commands.py tendencies --kills 20
    python scripts/benchmarks/kill_commands.py recoe --kills 20
    python scripts/benchmarks/kill_commands.py stream --kills 20
    python scripts/benchmarks/kill_commands.py fact_agent --kills 10
"""

import argparse
import csv
import json
import random
import shutil
import signal
import sys
import tempfile
import time
import zlib
from collections import Counter
from collections.abc import Callable
from functools import partial
from itertools import cycle
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from langchain_core.messages import HumanMessage, SystemMessage, ToolMessage  # noqa: E402

from emend.evals.construction.build import RUN  # noqa: E402
from emend.evals.construction.card import Card  # noqa: E402
from emend.evals.data.benchmarks.registry import CARD  # noqa: E402
from emend.evals.judging.scorings.judgements import read_judgements  # noqa: E402
from emend.evals.judging.scorings.search import list_scorings  # noqa: E402
from emend.evals.log.manifest import MANIFEST  # noqa: E402
from emend.evals.log.records import read_records  # noqa: E402
from emend.evals.results.aggregate.rows import report  # noqa: E402
from emend.evals.streams.fairness import answer_prompt  # noqa: E402
from emend.evals.streams.generator import generate_stream  # noqa: E402
from emend.evals.streams.run.session import OBSERVED, SYSTEM_FOLDER  # noqa: E402
from emend.evals.streams.stream_config import StreamOptions  # noqa: E402
from emend.evals.streams.turn import write_stream  # noqa: E402
from emend.memory.store.chroma import ChromaMemory  # noqa: E402
from scripts.benchmarks.storm_kills import SIGNALS, Contents, disturb, start, wait_for, words_of  # noqa: E402
from tests.evals.construction.authors import author  # noqa: E402
from tests.evals.construction.wikidata.entities import dump_of, entity, statement  # noqa: E402
from tests.evals.judged_runs import verdict  # noqa: E402
from tests.evals.streams.writers import FactWriter, look_up  # noqa: E402
from tests.paths import DATA  # noqa: E402
from tests.provider.protocols import Asked, Said, ToolCall  # noqa: E402
from tests.provider.server import Provider  # noqa: E402
from tests.provider.speaking import believes  # noqa: E402

CONCURRENCY = 4
FACTS, DOCUMENTS, UPDATES = 24, 6, 24
TABLE, COMPOSED = 24, 24
TABLE_FILE = "facts.csv"
STREAM_TURNS = 60
LATENCY = 0.02


class Scenario(NamedTuple):
    """A command that is disturbed.

    Attributes:
        reply: the replies of its model, which depend on the question alone.
        prepare: makes what the command works on, in a new folder.
        words: its command line over that folder, by which it also goes on.
        outcome: what may not depend on interruptions.
    """

    reply: Callable[[Asked], Said | str]
    prepare: Callable[[Path], None]
    words: Callable[[Path, Provider], list[str]]
    outcome: Callable[[Path], object]


def judge(asked: Asked) -> str:
    """A verdict that depends on the question alone."""
    return verdict(asked.prompt, yes="yes" if zlib.crc32(asked.prompt.encode()) % 3 else "no")


def make_run(folder: Path) -> None:
    """A run whose answers can be judged."""
    with Provider(believes) as provider:
        assert wait_for(start(words_of("single", "rag", provider.spec("chat"), folder))) == 0


def judge_words(folder: Path, provider: Provider) -> list[str]:
    """Command line that judges a run, or goes on with it."""
    spec = provider.spec("chat", "judge")
    return f"judge run {folder} --judge {spec} --kind equivalence --concurrency {CONCURRENCY}".split()


def judged_outcome(folder: Path) -> object:
    """Judgements without times and costs, and the rows of the table."""
    (scoring,) = list_scorings(folder)
    changing = {"usage", "seconds"}
    judgements = [each.model_dump_json(exclude=changing) for each in read_judgements(folder, scoring)]
    return sorted(judgements), [row.model_dump() for row in report(folder).rows]


def reproduce_words(folder: Path, provider: Provider) -> list[str]:
    """Command line that runs some rows of a published table, or goes on with them."""
    words = f"reproduce elken:2 --model {provider.spec('chat')} --limit 4 --yes --concurrency {CONCURRENCY}".split()
    only = ("--only", "method=ICE,Sparse Retrieval")
    return [*words, *only, "--data", str(DATA / "elken"), "--out", str(folder)]


def reproduced_outcome(folder: Path) -> object:
    """Records, steps and answers of the unedited model in each run, and the rows of its table."""
    runs = sorted(path.parent for path in folder.glob(f"*/{MANIFEST}"))
    return [(run.name, Contents.of(run), [row.model_dump() for row in report(run).rows]) for run in runs]


def make_facts(folder: Path) -> None:
    """A file of facts to build from."""
    folder.mkdir()
    rows = [{"subject": f"Lock {n}", "relation": "builder", "object": f"Ana Number{n}"} for n in range(FACTS)]
    (folder / "facts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def make_documents(folder: Path) -> None:
    """A folder of documents to build from, each with facts of its own."""
    (folder / "documents").mkdir(parents=True)
    for place in range(DOCUMENTS):
        sentences = (f"Lock{place}x{n} was built by a man from the town of Port{place}x{n}." for n in range(4))
        (folder / "documents" / f"{place}.txt").write_text(" ".join(sentences))


def make_dump(folder: Path) -> None:
    """A dump of Wikidata with updates, and the leads of their pages."""
    folder.mkdir()
    claims = [statement("P6", "Q10", "2019-07-24", "2022-10-25"), statement("P6", "Q30", "2022-10-25")]
    lands = [entity(f"Q{1000 + n}", f"Land{n}", claims) for n in range(UPDATES)]
    (folder / "dump.json").write_bytes(dump_of(*lands, entity("Q10", "Johnson"), entity("Q30", "Sunak")))
    leads = [{"title": f"Land{n} page", "lead": f"Land{n} has been led by Sunak since 2022."} for n in range(UPDATES)]
    (folder / "leads.jsonl").write_text("".join(json.dumps(lead) + "\n" for lead in leads))


def make_table(folder: Path) -> None:
    """A table of facts: counterfactual ones with a cloze, players with clubs, and clubs with leagues and coaches."""
    folder.mkdir()
    rows = [("subject", "relation", "object", "prompt", "old_answer")]
    for n in range(TABLE):
        rows += [
            (f"Player {n}", "member of sports team", f"Club {n % 8}", "{} plays for", f"Club {(n + 1) % 8}"),
            (f"Player {n}", "place of birth", f"Town {n % 8}", "{} was born in", f"Town {(n + 1) % 8}"),
        ]
    for n in range(8):
        rows += [
            (f"Club {n}", "league or competition", f"League {n % 4}", "{} plays in", f"League {(n + 1) % 4}"),
            (f"Club {n}", "head coach", f"Coach {n}", "{} is coached by", f"Coach {(n + 1) % 8}"),
        ]
    with (folder / TABLE_FILE).open("w", newline="") as stream:
        csv.writer(stream).writerows(rows)


def make_topics(folder: Path) -> None:
    """A file with one topic, which is asked about in ten calls."""
    folder.mkdir()
    (folder / "topics.toml").write_text('[topics]\nBusiness = "test"\n')


def composed_words(kind: str, folder: Path, provider: Provider) -> list[str]:
    """Command line that builds a benchmark of composed items, or goes on with it."""
    return [*build_words(kind, TABLE_FILE, folder, provider), "--cases", str(COMPOSED)]


def build_words(kind: str, source: str, folder: Path, provider: Provider) -> list[str]:
    """Command line that builds a benchmark, or goes on with it."""
    models = ("--model", provider.spec("chat", "author"), "--judge", provider.spec("chat", "judge"))
    words = f"build {kind} --from {folder / source} --out {folder / 'out'} --concurrency {CONCURRENCY}".split()
    return [*words, *models]


def update_words(folder: Path, provider: Provider) -> list[str]:
    """Command line that builds a benchmark of a dump with its leads, or goes on with it."""
    options = ("--since", "2021-04-01", "--leads", str(folder / "leads.jsonl"))
    return [*build_words("wikiupdate", "dump.json", folder, provider), *options]


def built_outcome(folder: Path) -> object:
    """The benchmark's files, the counts of its card, and records and steps of the construction."""
    card = Card.model_validate_json((folder / "out" / CARD).read_bytes())
    counts = card.items, card.attempts, card.failed, card.dropped, card.filters
    files = {file: (folder / "out" / file).read_bytes() for file in card.content.files}
    return files, counts, Contents.of(folder / "out" / RUN)


def make_stream(folder: Path) -> None:
    """A stream of turns with questions."""
    folder.mkdir()
    write_stream(generate_stream(StreamOptions(turns=STREAM_TURNS)), folder / "stream.jsonl")


def read_context(asked: Asked) -> str:
    """The answer that the recalled turns give."""
    return answer_prompt(asked.prompt)


def stream_words(folder: Path, provider: Provider) -> list[str]:
    """Command line that asks two systems over a stream, or goes on with it; one keeps its memory in the run folder."""
    words = f"stream run {folder / 'stream.jsonl'} --system memory --system grep --embedding lexical".split()
    return [*words, "--model", provider.spec("chat"), "--out", str(folder / "run")]


def stream_outcome(folder: Path) -> object:
    """Answers and scores without times and bytes, and the turns and edits of the memory that was kept."""
    changing = {"recall_ms", "store_bytes"}
    answers = sorted(
        (each.editor, each.probe, each.answer, each.retrieved, *sorted(each.values.items()))
        for each in (
            record.model_copy(update={"values": {k: v for k, v in record.values.items() if k not in changing}})
            for record in read_records(folder / "run")
        )
    )
    (observed,) = (folder / "run").glob(f"systems/memory/*/{OBSERVED}")
    (store,) = (observed.parent / SYSTEM_FOLDER).iterdir()
    with ChromaMemory(store, None, create=False) as memory:
        edits = [edit.model_dump_json() for edit in memory.edits()]
    return answers, observed.read_text().split(), sorted(edits)


def write_facts(asked: Asked) -> Said | str:
    """The calls by which an agent writes a turn into its memory, and looks facts up for a question."""
    roles = {"tool": ToolMessage, "system": SystemMessage}
    messages = [
        roles.get(role, HumanMessage)(text, **({"tool_call_id": "c"} if role == "tool" else {}))
        for role, text in asked.messages
    ]
    if not asked.tools:
        return answer_prompt(asked.prompt)
    message = FactWriter().write(messages) if "remember" in asked.tools else look_up(messages)
    calls = [ToolCall(call["name"], call["args"]) for call in message.tool_calls]
    return Said(str(message.text), calls)


def agent_words(folder: Path, provider: Provider) -> list[str]:
    """Command line that lets an agent read a stream with its memory of facts, or goes on with it."""
    words = f"stream run {folder / 'stream.jsonl'} --system fact_agent --embedding lexical --concurrency 1".split()
    return [*words, "--model", provider.spec("chat"), "--out", str(folder / "run")]


def agent_outcome(folder: Path) -> object:
    """Answers and scores without times."""
    return sorted((each.probe, each.answer, each.values.get("correct")) for each in read_records(folder / "run"))


SCENARIOS = {
    "judge": Scenario(judge, make_run, judge_words, judged_outcome),
    "reproduce": Scenario(believes, Path.mkdir, reproduce_words, reproduced_outcome),
    "akew": Scenario(author, make_facts, partial(build_words, "akew", "facts.jsonl"), built_outcome),
    "questions": Scenario(author, make_documents, partial(build_words, "questions", "documents"), built_outcome),
    "facts": Scenario(author, make_documents, partial(build_words, "facts", "documents"), built_outcome),
    "wikiupdate": Scenario(author, make_dump, update_words, built_outcome),
    "docter": Scenario(author, make_table, partial(build_words, "docter", TABLE_FILE), built_outcome),
    "elken": Scenario(author, make_table, partial(composed_words, "elken"), built_outcome),
    "chains": Scenario(author, make_table, partial(composed_words, "chains"), built_outcome),
    "tendencies": Scenario(author, make_topics, partial(build_words, "tendencies", "topics.toml"), built_outcome),
    "recoe": Scenario(author, make_table, partial(composed_words, "recoe"), built_outcome),
    "stream": Scenario(read_context, make_stream, stream_words, stream_outcome),
    "fact_agent": Scenario(write_facts, make_stream, agent_words, agent_outcome),
}


def storm(name: str, kills: int, seed: int, root: Path) -> Counter[str]:
    """Disturb a command so many times in all, and compare every finished one with the undisturbed one.

    Returns:
        Numbers of signals by name, of `finished` commands that were compared and of calls that were made `again`.

    Raises:
        AssertionError: an outcome differs, a process hangs or ends with an unexpected code.
    """
    rng, signals, counts = random.Random(seed), cycle(SIGNALS), Counter[str]()
    scenario = SCENARIOS[name]
    scenario.prepare(root / "begin")
    with Provider(scenario.reply, latency=LATENCY) as provider:
        whole = shutil.copytree(root / "begin", root / "whole")
        assert wait_for(start(scenario.words(whole, provider))) == 0
        expected, calls = scenario.outcome(whole), provider.count
        assert calls, "the command asks nothing"
        left = kills
        while left:
            folder = shutil.copytree(root / "begin", root / f"{counts['finished']}")
            before, sent, late = provider.count, min(left, rng.randint(2, 6)), 0
            for place in range(sent, 0, -1):
                number, missing = next(signals), max(1, calls - (provider.count - before))
                process = start(scenario.words(folder, provider))
                code = disturb(process, provider, rng.randint(0, 2 * missing // (place + 1)), number, rng)
                late += not code
                counts[signal.Signals(number).name if code else "too late"] += 1
            assert wait_for(start(scenario.words(folder, provider))) == 0
            again = provider.count - before - calls
            assert scenario.outcome(folder) == expected, f"{name} {counts['finished']} differs"
            assert 0 <= again <= CONCURRENCY * (sent - late), f"{again} calls were made again after {sent} signals"
            left -= sent
            counts["finished"] += 1
            counts["again"] += again
    return counts


def main() -> None:
    """Storm, and print the counts."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=SCENARIOS)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    begin = time.monotonic()
    with tempfile.TemporaryDirectory() as root:
        counts = storm(options.command, options.kills, options.seed, Path(root))
    print(f"{dict(counts)}; 0 lost, 0 doubled, {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main()
