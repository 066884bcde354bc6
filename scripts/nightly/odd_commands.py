"""Attacks by files and words that commands are given: data folders, declared benchmarks, prompts, samples, pages."""

import json
import os
import random
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from emend.agents.judging.prompt_file import read_prompts
from emend.evals.data.conversations.chats import make_chats
from emend.evals.data.declared.benchmark import DeclaredBenchmark
from emend.evals.data.declared.description import is_declared
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.search import list_scorings
from emend.evals.results.aggregate.database import open_database
from emend.evals.show.view.environment import render
from emend.evals.show.view.site import Site
from emend.memory.errors import BadData
from scripts.benchmarks.alarm import alarm
from scripts.benchmarks.fuzz_run_folders import CONTENT, answer, judge_of, make_run, mutate, run_command
from scripts.benchmarks.fuzz_run_folders import spoil as replace_by
from scripts.nightly.spoiling import Case
from tests.evals.streams.streams import run_systems
from tests.paths import DATA
from tests.provider.server import Provider

EDITING = ("knowedit", "uniedit", "wikibigedit")
LONG = "x" * 5_000_000
ROW = {"id": "1", "subject": "Aland", "new": "Bern", "question": "What is the capital of Aland?", "names": ["a", "b"]}
DECLARED = """rows: rows.jsonl
edit: {text: "The capital of {subject} is {new}.", subject: "{subject}", prompt: "The capital of {} is",
       target_new: "{new}"}
probes:
  efficacy: {prompt: "{question}", gold: "{new}"}
"""


def command(*words: str) -> None:
    """Run a command line in this process; an error of Emend's, and a list of faults, are raised as such."""
    try:
        message = run_command(list(words))
    except AssertionError as error:
        message = str(error).replace("\n", " ")
        if not message.startswith("exit code 2:"):
            raise
    if message:
        raise BadData(message)


def data_folders(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield checks of folders of the editing benchmarks with a changed, huge or replaced file."""
    (victim := root / "victim").write_bytes(b"precious\n")
    changes: list[Any] = [*CONTENT, "long text", "deep text", "many rows", "odd types", "replaced", "replaced"]
    for number, change in enumerate(islice(cycle(changes), count)):
        benchmark = EDITING[number % len(EDITING)]
        folder = Path(shutil.copytree(DATA / benchmark, root / str(number)))
        path = rng.choice(sorted(path for path in folder.rglob("*.json") if path.is_file()))
        if change == "replaced":
            change = replace_by(rng, path, victim)
        elif isinstance(change, str):
            path.write_text(odd_rows(change, json.loads(path.read_text())))
        else:
            path.write_bytes(change(rng, path.read_bytes()))
        name = getattr(change, "__name__", change)
        yield f"{benchmark} {name} {number}", partial(command, "data", "check", benchmark, "--data", str(folder))


def odd_rows(change: str, content: Any) -> str:
    """Return the text of a data file with one of its rows changed."""
    rows: Any = content
    keys = list(rows)
    first = rows[keys[0]] if isinstance(rows, dict) else rows[0]
    if change == "many rows" and isinstance(rows, list):
        rows *= 20_000 // len(rows)
    elif change == "odd types":
        rows = {"a": [rows]} if isinstance(rows, list) else [rows]
    elif isinstance(first, dict):
        for name, value in first.items():
            if isinstance(value, str):
                first[name] = LONG if change == "long text" else "[" * 100_000
    return json.dumps(rows)


MESSAGES: tuple[Any, ...] = (
    {"role": "user", "content": [{"type": "text", "text": "I moved."}], "time": "2026-01-05T09:00"},
    {"type": "human", "data": {"content": "I moved."}},
    {"lc": 1, "type": "constructor", "id": ["langchain", "HumanMessage"], "kwargs": {"content": "I moved."}},
    {
        "id": "c1",
        "current_node": "a",
        "mapping": {"a": {"parent": None, "message": {"author": {"role": "user"}, "content": {"parts": ["I moved."]}}}},
    },
)
QUESTION = {"question": "Who?", "answer": ["I"], "evidence": ["I moved"], "kind": "current", "date": "2026-01-05"}
ODD_VALUES: tuple[Any, ...] = (
    None, 5, -1, 10**30, 1e300, True, "", " ", "\x1b[2J", LONG, [], {}, [None], {"a": None}, [["x"]],
    "0001-01-01T00:00+14:00",
)  # fmt: skip


def chat_logs(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield conversions of chat logs of every format, and of questions, with an odd value in one of their fields."""
    for number in range(count):
        (folder := root / str(number)).mkdir()
        message, question = MESSAGES[number % len(MESSAGES)], QUESTION
        if rng.random() < 0.3:
            question = with_odd_value(question, rng)
        else:
            message = with_odd_value(message, rng)
        for name, value in (("log.jsonl", message), ("questions.jsonl", question)):
            (folder / name).write_text(json.dumps(value) + "\n")
        paths = [folder / name for name in ("log.jsonl", "questions.jsonl", "out")]
        yield f"chat log {number}", partial(make_chats, paths[:1], *paths[1:])


def with_odd_value(content: Any, rng: random.Random) -> Any:
    """Return a copy with an odd value in place of one of its values, at any depth."""
    if not isinstance(content, dict | list) or not content or rng.random() < 0.2:
        return rng.choice(ODD_VALUES)
    copied = dict(content) if isinstance(content, dict) else list(content)
    key: Any = rng.choice(list(content)) if isinstance(content, dict) else rng.randrange(len(content))
    copied[key] = with_odd_value(content[key], rng)
    return copied


def declarations(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield uses of declared benchmarks whose YAML or rows are bombs, odd, or want more than to be read."""
    for number, (name, (text, rows)) in enumerate(islice(cycle(odd_declarations().items()), count)):
        (folder := root / str(number)).mkdir()
        (folder / "rows.jsonl").write_text(rows)
        (folder / "bench.yaml").write_text(text)
        if name == "FIFO":
            (folder / "rows.jsonl").unlink()
            os.mkfifo(folder / "rows.jsonl")
        if name == "link":
            (folder / "rows.jsonl").unlink()
            (folder / "rows.jsonl").symlink_to("/etc/passwd")
        yield f"{name} {number}", partial(use_declared, folder / "bench.yaml")


def odd_declarations() -> dict[str, tuple[str, str]]:
    """Return texts of a description and of its rows, by name."""
    row = json.dumps(ROW) + "\n"
    bomb = "a: &a [x, x]\n" + "".join(
        f"{name}: &{name} [*{last}, *{last}]\n" for last, name in zip("abcdef", "bcdefg", strict=True)
    )
    texts = {
        "plain": DECLARED,
        "bomb": DECLARED + bomb,
        "one anchor": DECLARED.replace("efficacy:", "efficacy: &e") + "  paraphrase: *e\n",
        "merge key": DECLARED + "x: {<<: {a: 1}}\n",
        "tag": DECLARED.replace("rows.jsonl", "!!python/object/apply:os.system ['touch owned']"),
        "own tag": DECLARED.replace("rows.jsonl", "!include /etc/passwd"),
        "many keys": DECLARED + "".join(f"k{number}: 1\n" for number in range(60_000)),
        "many kinds": DECLARED + "".join(f'  k{n}: {{prompt: "{{question}}", gold: "x"}}\n' for n in range(3_000)),
        "deep": DECLARED + "x: " + "[" * 5_000 + "]" * 5_000,
        "deep mapping": DECLARED + "x: " + "{a: " * 5_000 + "}" * 5_000,
        "long text": DECLARED.replace("{question}", "{question}" + "y" * 900_000),
        "too large": DECLARED + "# " + LONG,
        "documents": DECLARED + "---\n" * 50_000,
        "directives": "%TAG ! tag:evil,2000:\n---\n" + DECLARED,
        "binary": DECLARED.replace("rows.jsonl", "!!binary aGVsbG8="),
        "control characters": DECLARED.replace("capital", "\x1b[2J\x00"),
        "rows outside": DECLARED.replace("rows.jsonl", "../../../../etc/passwd"),
        "rows absolute": DECLARED.replace("rows.jsonl", "/etc/passwd"),
        "rows of a server": DECLARED.replace("rows.jsonl", "http://192.0.2.1/x"),
        "rows with NUL": DECLARED.replace("rows.jsonl", '"a\\0b"'),
        "attribute": DECLARED.replace("{question}", "{question.__class__}"),
        "index": DECLARED.replace("{question}", "{names[0]}"),
        "width": DECLARED.replace("{question}", "{question:>999999999}"),
        "conversion": DECLARED.replace("{question}", "{question!r}"),
        "braces": DECLARED.replace("{question}", "{" * 50_000),
        "own scorer": DECLARED.replace('gold: "{new}"', 'gold: "{new}", scorers: ["os:system"]'),
        "numbers": DECLARED.replace('"{new}"', ".nan"),
        "huge integer": DECLARED.replace('gold: "{new}"', f'gold: "{{new}}", new_tokens: {"9" * 5_000}'),
        "negative": DECLARED.replace('gold: "{new}"', 'gold: "{new}", new_tokens: -5'),
        "empty": "",
        "FIFO": DECLARED,
        "link": DECLARED,
    }
    rows = {
        "no row": "",
        "deep row": '{"id": ' + "[" * 100_000 + "\n",
        "long row": json.dumps(ROW | {"question": LONG}) + "\n",
        "rows alike": row * 30_000,
        "other types": json.dumps(ROW | {"subject": {"a": 1}, "new": [1, None]}) + "\n",
        "braces in a row": json.dumps(ROW | {"subject": "{new}{question.__class__}"}) + "\n",
        "half a row": row + row[:30],
        "NUL in a row": row.replace("Aland", "\\u0000\\ud800"),
    }
    return {name: (text, row) for name, text in texts.items()} | {name: (DECLARED, text) for name, text in rows.items()}


def use_declared(file: Path) -> None:
    """Check a declared benchmark and make its cases, which may hold nothing of other files."""
    assert is_declared(str(file)) in (True, False)
    benchmark = DeclaredBenchmark(str(file))
    check = benchmark.check()
    if check.faults:
        raise BadData(check.faults[0])
    cases = list(benchmark.cases(benchmark.settings[0]))
    shown = "".join(probe.prompt for case in cases for probe in case.probes)
    assert "root:" not in shown and "<class" not in shown, "a template was given more than its row"


def prompt_files(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield readings of judge prompts that are bombs, of another form, or want more than to be filled in."""
    plain = '[equivalence]\nask = "Question: {question} Reply: {reply} Gold: {reference}"\n'
    texts = {
        "plain.toml": plain,
        "attribute.toml": plain.replace("{reply}", "{reply.__class__}"),
        "unknown.toml": plain.replace("{reply}", "{secret}"),
        "no-ask.toml": '[equivalence]\ntask = "x"\n',
        "deep.toml": "x = " + "[" * 50_000,
        "deep.json": '{"equivalence": ' + "[" * 100_000,
        "tables.toml": "".join(f"[t{number}]\nask = '{{reply}}'\n" for number in range(20_000)),
        "nested.toml": "[" + ".".join("a" * 3_000) + "]\nx = 1\n",
        "long.toml": plain.replace("Question", "y" * 3_000_000),
        "escape.toml": plain.replace("Question", "\\u001b[2J"),
        "regex.toml": plain + 'form = "(a+)+$"\nwords = {"a" = "yes"}\n',
        "words.toml": plain + 'form = "{word}"\nwords = {"" = ""}\n',
        "examples.toml": plain + "examples = [{}]\n",
        "list.json": "[]",
        "null.json": "null",
        "nan.json": '{"equivalence": {"ask": NaN}}',
        "latin.toml": "\xff\xfe",
        "empty.toml": "",
    }
    for number, name in enumerate(islice(cycle([*texts, "fifo.toml", "folder.toml", "zero.toml"]), count)):
        (folder := root / str(number)).mkdir()
        file = folder / name
        if name in texts:
            file.write_text(texts[name], "latin-1" if name == "latin.toml" else "utf-8")
        elif name == "fifo.toml":
            os.mkfifo(file)
        elif name == "folder.toml":
            file.mkdir()
        else:
            file.symlink_to("/dev/null")
        yield f"{name} {number}", partial(fill_prompts, file)


def fill_prompts(file: Path) -> None:
    """Read prompts and fill in an item that has names in braces."""
    item = {name: ["{reference.__class__} {0}"] for name in ("question", "reply", "reference")}
    for prompt in list(read_prompts(file).values())[:50]:
        for message in prompt.messages([item]):
            assert "<class" not in message.text, "a text was expanded"


def samples(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield judgings of samples that grow, shrink, are interrupted and repeated; no answer may be judged twice."""
    os.environ.setdefault("OPENAI_API_KEY", "sk-planted-0123456789")
    with ExitStack() as stack:
        provider = stack.enter_context(Provider(answer))
        spec = provider.spec("chat")
        whole = make_run(root / "whole", provider)
        shutil.rmtree(whole / "scorings")
        words = ("--sample", "--limit")
        plans = [[(word, str(number)) for word in words[: 1 + twice] for number in numbers]
                 for twice in (0, 1) for numbers in ((1, 2, 3), (3, 1), (2, 2), (10**9, 1), (1, 10**9))]  # fmt: skip
        odd = [[("--sample", value)] for value in ("0", "-1", "x", "1e3", "", "9" * 400)]
        for number, plan in enumerate(islice(cycle([*plans, *odd]), count)):
            folder = Path(shutil.copytree(whole, root / str(number)))
            yield f"{plan} {number}", partial(judge_samples, folder, judge_of(spec), plan)


def judge_samples(folder: Path, judge: str, plan: list[tuple[str, str]]) -> None:
    """Judge samples one after the other; each unit has its verdicts once."""
    for option, value in plan:
        command("judge", "run", str(folder), "--judge", judge, option, value)
    for scoring in list_scorings(folder):
        keys = [judgement.key for judgement in read_judgements(folder, scoring)]
        assert keys and len(keys) == len(set(keys)), "a verdict is there twice, or none"


def tables(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield queries of damaged runs over a stream, and their page of turns; nothing outside may be read or changed."""
    (root / "whole").mkdir()
    run_systems(root / "whole", "bm25_newest", "empty")
    (victim := root / "victim").write_bytes(b"precious\n")
    sql = ("SELECT * FROM turns", "SELECT * FROM answers", "SELECT * FROM records", *HOSTILE_SQL)
    for number, statement in enumerate(islice(cycle(sql), count)):
        folder = Path(shutil.copytree(root / "whole" / "run", root / str(number)))
        change = mutate(rng, folder, victim) if number >= len(sql) else "whole"
        yield f"{statement[:40]}, {change} {number}", partial(use_tables, folder, statement, victim)


QUERY_SECONDS = 20.0
"""Seconds after which a query is interrupted, as by Ctrl-C; some of these have no end."""
HOSTILE_SQL = (
    "SELECT * FROM turns, answers, turns t, answers a, turns u, answers b, turns v, answers c",
    "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT max(i) FROM n",
    "SELECT repeat('x', 50000000) FROM turns",
    "SELECT unnest(range(10000000000))",
    "SELECT regexp_matches(repeat('a', 100000), '(a+)+$') FROM answers",
    "COPY turns TO 'stolen.csv'",
    "SELECT * FROM read_text('/etc/passwd')",
    "CREATE TABLE turns AS SELECT 1",
    "SELECT * FROM turns; DROP VIEW turns",
)


def use_tables(folder: Path, statement: str, victim: Path) -> None:
    """Query a run until it ends or is interrupted, and render its page of turns, which shows no escape sequence."""
    try:
        with suppress(TimeoutError, KeyboardInterrupt), alarm(QUERY_SECONDS), open_database(folder) as database:
            database.query(statement)
    finally:
        assert victim.read_bytes() == b"precious\n" and not Path("stolen.csv").exists(), "another file was changed"
    with Site([folder], static=True) as site:
        for entry in site.runs():
            html = render(site.page(f"run/{entry.id}/turns.html"))
            assert "<script>alert" not in html and "\x1b" not in html
