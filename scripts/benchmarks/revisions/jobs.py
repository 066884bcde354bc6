"""The jobs whose outcomes two revisions must share: each editor, benchmark, construction, stream and memory system."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from emend.editors.registry import EDITORS
from emend.evals.construction.registry import CONSTRUCTIONS
from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.streams.system import SYSTEMS
from tests.evals.construction.wikidata.entities import dump_of, entity, statement

ROOT = Path(__file__).resolve().parents[3]
HAND_MADE = ROOT / "tests" / "data"
PAGES = ROOT / "docs" / "how-to"
AUTHOR = "scripted_author:ScriptedAuthor"
READER = "emend.evals.streams.fairness:OracleReader"
WRITER = "tests.evals.streams.writers:FactWriter"
SHOWN = re.compile(r"^`([\w./-]+\.(?:csv|toml|md|txt))`:\n\n```\w+\n(.*?)^```", re.M | re.S)
BLOCK = re.compile(r"^```bash\n(.*?)^```", re.M | re.S)
SERVED = re.compile(r"openai:\w+@http://127\.0\.0\.1:8001/v1")
# Setting of a benchmark, and published tables that a run of it is compared with.
PUBLISHED: dict[str, tuple[str, tuple[str, ...]]] = {
    "docter": ("gold", ("docter:2",)),
    "akew": ("struct", ("akew:2",)),
    "elken": ("", ("elken:2",)),
    "recoe": ("", ("recoe:4",)),
}
# Benchmarks of long conversations, of which the hand-made rows are enough.
CONVERSATIONS = ("locomo", "beam", "longmemeval", "memory_agent_bench", "chats")
# Package of the editors that change weights.
WEIGHTS = "emend.editors.parametric."
# Editors that are also run in sequence.
LIFELONG = ("rag", "ft", "memit", "ultraedit", "grace", "wise")
# Memory systems that need a package of an extra.
EXTRA = ("langmem", "mem0", "amem", "graphiti")
USUAL = ("--seed", "0", "--embedding", "lexical")


Words = tuple[str, ...]
"""A command without the program's name."""


class Job(NamedTuple):
    """Commands that are run one after the other in a folder."""

    name: str
    commands: tuple[Words, ...]
    outputs: tuple[str, ...]
    """Files and folders in it that both revisions must write alike."""
    files: dict[str, bytes] = {}
    """What stands in the folder before."""


def all_jobs(data: Path | None, limit: int) -> Iterator[Job]:
    """Every job.

    Args:
        data: a folder with the benchmarks' files, one folder each; hand-made rows where it has none.
        limit: number of cases of tinyworld; of the other benchmarks at most 4.
    """
    yield from editor_jobs(limit)
    yield from benchmark_jobs(data, min(limit, 4))
    yield from construction_jobs()
    yield from stream_jobs()


def run_job(name: str, words: Words, tables: tuple[str, ...] = ()) -> Job:
    """A run on the embedded model, and its reports."""
    out = ("--model", "tiny", "--out", "out", *USUAL)
    reports: list[Words] = [("report", "out", "--json")]
    reports += [("report", "out", "--against", table, "--json") for table in tables]
    return Job(name, (("run", *words, *out), *reports), ("out",))


def editor_jobs(limit: int) -> Iterator[Job]:
    """A run of each editor on tinyworld, and of some that change weights with one edit after the other."""
    tinyworld = ("--benchmark", "tinyworld")
    for name, (path, *_) in EDITORS.builtin.items():
        modes = ["single"] if path.startswith(WEIGHTS) else ["all"]
        modes += ["sequential"] if name in LIFELONG else []
        for mode in modes:
            words: Words = (*tinyworld, "--editor", name, "--mode", mode, "--limit", str(limit))
            yield run_job(f"editor {name}, {mode}", words)
    for setting in ("document", "event"):
        words = (*tinyworld, "--setting", setting, "--editor", "rag", "--editor", "crag", "--limit", str(limit))
        yield run_job(f"tinyworld, {setting}", words)


def benchmark_jobs(data: Path | None, limit: int) -> Iterator[Job]:
    """A run of three editors on each benchmark."""
    for name in BENCHMARKS.builtin:
        if name in ("tinyworld", "knowledge"):  # run by every editor, and by `emend build fresh`
            continue
        folder = HAND_MADE / name
        if data is not None and name not in CONVERSATIONS and (data / name).is_dir():
            folder = data / name
        setting, tables = PUBLISHED.get(name, ("", ()))
        words = ["--benchmark", name, "--data", str(folder), "--limit", str(limit)]
        words += ["--setting", setting] if setting else []
        editors = ("--editor", "unedited", "--editor", "rag", "--editor", "in_context")
        yield run_job(f"benchmark {name}", (*words, *editors), tables)


def construction_jobs() -> Iterator[Job]:
    """The constructions that the pages show, with their files, by a scripted author; and updates from a dump."""
    for page in sorted(PAGES.glob("build*.md")):
        text = page.read_text(encoding="utf-8")
        files = {name: body.encode() for name, body in SHOWN.findall(text)}
        blocks = "".join(BLOCK.findall(text))
        lines = [line for line in blocks.splitlines() if line.startswith("emend build ")]
        commands = [shlex.split(SERVED.sub(AUTHOR, line))[1:] for line in lines]
        commands = [words for words in commands if not {"--dry-run", "--review"} & set(words)]
        outputs = [words[words.index("--out") + 1] for words in commands]
        if commands:
            yield Job(f"page {page.stem}: {', '.join(outputs)}", tuple(map(tuple, commands)), tuple(outputs), files)
    yield dump_job()


def dump_job() -> Job:
    """WikiUpdate's construction from a dump of three lands, with the leads of its pages."""
    terms = [statement("P6", "Q10", "2019-07-24", "2022-10-25"), statement("P6", "Q30", "2022-10-25")]
    lands = [entity("Q145", "Veldania", terms), entity("Q146", "Ostria", terms)]
    people = [entity("Q10", "Johnson"), entity("Q30", "Sunak")]
    leads = {"Veldania page": "Veldania is a land in the north.", "Sunak page": "Sunak has led Veldania since 2022."}
    rows = [json.dumps({"title": title, "lead": lead}) + "\n" for title, lead in leads.items()]
    files = {"dump.json": dump_of(*lands, *people), "leads.jsonl": "".join(rows).encode()}
    words = ("build", "wikiupdate", "--from", "dump.json", "--leads", "leads.jsonl", "--since", "2021-04-01")
    models = ("--model", AUTHOR, "--judge", AUTHOR)
    return Job("construction wikiupdate", ((*words, *models, "--out", "changed"),), ("changed",), files)


def stream_jobs() -> Iterator[Job]:
    """Generated streams, a run of each memory system that needs no extra package, and conversations."""
    new = ("stream", "new", "out.jsonl", "--turns", "150", "--seed", "1")
    yield Job("stream new", (new,), ("out.jsonl",))
    yield Job("stream new, held-out wordings", ((*new, "--wordings", "held-out"),), ("out.jsonl",))
    yield Job("stream new, injections", ((*new, "--injections", "10"),), ("out.jsonl",))
    turns = (HAND_MADE / "streams" / "stream.jsonl").read_bytes()
    for name in SYSTEMS.builtin:
        if name not in EXTRA:
            model = WRITER if name == "fact_agent" else READER
            yield system_job(f"system {name}", "stream.jsonl", {"stream.jsonl": turns}, model, name)
    yield system_job("system rag", "stream.jsonl", {"stream.jsonl": turns}, READER, "rag")
    for name in CONVERSATIONS:
        file = min(path for path in (HAND_MADE / name).iterdir() if path.is_file())
        yield system_job(f"stream {name}", str(file), {}, READER, "bm25_newest", "retrieval", "oracle")


def system_job(name: str, source: str, files: dict[str, bytes], model: str, *systems: str) -> Job:
    """A run of memory systems over a stream, and its report."""
    chosen = [word for system in systems for word in ("--system", system)]
    words = ("stream", "run", source, *chosen, "--model", model, "--budget", "300", "--embedding", "lexical")
    return Job(name, ((*words, "--out", "out"), ("report", "out", "--json")), ("out",), files)


def missing_constructions(jobs: list[Job]) -> list[str]:
    """Constructions that no job runs."""
    run = {words[1] for job in jobs for words in job.commands if words[0] == "build"}
    return [name for name in CONSTRUCTIONS.builtin if name not in run]
