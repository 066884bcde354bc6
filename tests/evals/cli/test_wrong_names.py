"""Names that are wrong are answered before the first call, each with its remedy."""

from pathlib import Path
from typing import Any

import pytest

from tests.evals.toy_runs import RUN

TOY = ("run", "--benchmark", "tinyworld", "--editor", "rag", "--model", "tiny", "--out", "out")
REMOTE = ("run", "--benchmark", "tinyworld", "--editor", "rag", "--model", "openai:x")


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("run", "--benchmark", "facts.cvs", "--editor", "rag"), "'facts.cvs' is neither a file nor a known benchmark"),
        (("run", "--benchmark", "no/facts", "--editor", "rag"), "'no/facts' is neither a file nor a known benchmark"),
        (
            ("run", "--benchmark", "there.foo", "--editor", "rag"),
            "'there.foo' has an unsupported suffix: facts are in a file that",
        ),
        ((*TOY, "--model", "tinny"), "did you mean 'tiny'"),
        ((*TOY, "--editor", "rga"), "did you mean 'rag'"),
        ((*TOY, "--retriever", "bm52"), "did you mean 'bm25'"),
        ((*TOY, "--protocol", "contain"), "did you mean 'contains'"),
        ((*TOY, "--mode", "batch"), "did you mean 'batch:N'"),
        ((*TOY, "--require", "efficasy>=1"), "did you mean 'efficacy'"),
        ((*TOY, "--require", "ragg:efficacy>=1"), "did you mean 'rag'"),
        ((*TOY, "--require", "efficacy"), "write for example rag:efficacy>=0.9"),
        ((*TOY, "--junit", "x.xml"), "--junit writes the outcomes of --require"),
        ((*TOY, "--preset", "bets"), "did you mean 'best'"),
        ((*TOY, "--form", "chatt"), "did you mean 'chat'"),
        ((*TOY, "--set", "rag.kk=3"), "did you mean 'k'"),
        ((*TOY, "--set", "ragg.k=3"), "ragg"),
        ((*TOY, "--share", "9/8"), "9/8"),
        ((*TOY, "--workers", "process:2"), "process"),
        ((*TOY, "--fail-on-error", "often"), "often"),
        ((*TOY, "--limit", "0"), "limit is 0: it must be 1 or more"),
        ((*TOY, "--setting", "documnt"), "did you mean 'document'"),
        ((*TOY, "--benchmark-option", "splitt=seen"), "did you mean 'split'"),
        ((*TOY, "--embedding", "minlm"), "minlm"),
        ((*TOY, "--prices", "none.toml"), "none.toml"),
        ((*TOY, "--cache", ""), "--cache is empty"),
    ],
)
def test_a_wrong_name_is_refused_before_anything_is_evaluated(emend: Any, words: tuple[str, ...], error: str) -> None:
    Path("there.foo").write_text("x")
    output = emend(*words)
    assert output.code == 2 and error in output.err, output.err
    assert output.err.startswith("error: ") and output.err.count("\n") == 1
    assert not Path("out").exists()


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("report", "nowhere"), "nowhere"),
        (("report", "out", "--sort", "effcacy"), "effcacy"),
        (("report", "out", "--columns", "effcacy"), "effcacy"),
        (("report", "out", "--sort", "effcacy", "--json"), "effcacy"),
        (("report", "ouut"), "the run folder 'ouut' does not exist: did you mean 'out'?"),
        (("report", "out", "--format", "latx"), "did you mean 'latex'"),
        (("report", "out", "--against", "akew:99"), "akew:99"),
        (("report", "out", "--sql", "selct 1"), "selct"),
        (("report", "out", "--sql", "from recods"), "records"),
        (("trace", "out", "99"), "99"),
        (("trace", "out", "1", "--editor", "quoter"), "quoter"),
        (("compare", "out", "nowhere"), "nowhere"),
        (("analyse", "out", "tendancy"), "did you mean 'tendency'"),
        (("gate", "out"), "no limit is set"),
        (("gate", "out", "--min-efficacy", "1", "--metric", "effcacy"), "effcacy"),
        (("judge", "run", "out", "--judge", "openia:x"), "did you mean 'openai'"),
        (("list", "editor"), "did you mean 'editors'"),
        (("graph", "melo"), "did you mean 'mello'"),
        (("data", "check", "facts.cvs"), "facts.cvs"),
        (("data", "pull", "docterr"), "did you mean 'docter'"),
        (("data", "pull", "nowhere"), "unknown data 'nowhere': known: akew"),
        (("prepare", "covariance", "--model", "openai:x"), "model 'openai:x' is not local"),
        ((*REMOTE, "--set", "model.max_retries=2", "--dry-run"), "'deadline' limits the seconds"),
        ((*REMOTE, "--set", "model.max_retries=0", "--dry-run"), "'deadline' limits the seconds"),
        (("judge", "run", "out", "--judge", "openai:x", "--set", "judge.max_retries=2"), "'deadline' limits"),
        (("model", "get", "smolm2"), "did you mean 'smollm2'"),
        (("merge", "out", "--out", "m"), "share"),
        (("stream", "check", "none.jsonl"), "none.jsonl"),
        (("memory", "search", "x", "--memory", "none"), "none"),
        (("reproduce", "akew:9", "--published"), "akew:9"),
        (("edit", "--model", "openai:x", "--method", "ft", "--edits", "e.jsonl", "--out", "d"), "e.jsonl"),
    ],
)
def test_a_wrong_name_after_a_run_is_one_line_with_its_remedy(emend: Any, words: tuple[str, ...], error: str) -> None:
    emend(*RUN, "--out", "out", "--limit", "1")
    output = emend(*words)
    assert output.code == 2 and error in output.err, output.err
    assert output.err.startswith("error: ") and output.err.count("\n") == 1


@pytest.mark.parametrize("words", [(), ("--out", "deep/in/run")])
def test_a_refused_run_leaves_no_folder(emend: Any, tmp_path: Path, words: tuple[str, ...]) -> None:
    output = emend("run", "--benchmark", "tinyworld", "--editor", "rag", "--setting", "nowhere", *words)
    assert output.code == 2 and not list(tmp_path.iterdir())


FILES = {
    "head.csv": "question,answer\n",
    "noans.csv": "question,answer\nWho wrote X?,\n",
    "odd.csv": "questin,answer\nWho wrote X?,Ann\n",
    "bad.jsonl": '{"question": "Who?", "answer": "Ann"}\nnot json\n',
    "x.xlsx": "PK",
    "broken.json": '{"a": 1',
    "object.json": '{"a": 1}',
    "typed.json": '[{"question": "Who?", "answer": "Ann", "locality": [{"question": "Q?", "answer": []}]}]',
    "broken.yaml": "benchmark: [tinyworld\n",
    "number.yaml": "benchmark: tinyworld\neditors: [rag]\nlimit: few\n",
    "cfg.yaml": "benchmark: tinyworld\neditrs: [rag]\n",
    "list.yaml": "- 1\n",
    "labels.jsonl": '{"kind":"coherence"}\n',
    "turns.jsonl": '{"role":1}\n',
}


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("data", "check", "head.csv"), "write a template with emend data new"),
        (("data", "check", "noans.csv"), "line 2, field 'answer' is missing: say what the right answer is now"),
        (("data", "check", "odd.csv"), "did you mean 'question'"),
        (("data", "check", "bad.jsonl"), "bad.jsonl, line 2"),
        (("data", "check", "x.xlsx"), "save it as .csv"),
        (("data", "new", "odd.csv"), "Give another name"),
        (("data", "new", "x.doc"), ".jsonl"),
        (("run", "cfg.yaml"), "did you mean 'editors'"),
        (("data", "check", "broken.json"), "Correct the file there"),
        (("data", "check", "object.json"), "write [{...}, {...}]"),
        (("data", "check", "typed.json"), "field 'locality.0.answer': it must be a text, got []"),
        (("run", "none.yaml"), "the configuration file 'none.yaml' does not exist: correct the path"),
        (("run", "cgf.yaml"), "the configuration file 'cgf.yaml' does not exist: did you mean 'cfg.yaml'?"),
        (("run", "--benchmark", "noanss.csv", "--editor", "rag"), "did you mean 'noans.csv'?"),
        (("run", "--benchmark", "noanss", "--editor", "rag"), "did you mean the file 'noans.csv'?"),
        (("run", "--benchmark", "./noanss", "--editor", "rag"), "did you mean 'noans.csv'?"),
        (("judge", "calibrate", "lables.jsonl", "--judge", "tiny"), "did you mean 'labels.jsonl'?"),
        (("run", "broken.yaml"), "line 2, column 1, expected"),
        (("run", "number.yaml"), "'limit' is few: it must be a whole number"),
        ((*TOY, "--limit", "few"), "it must be a whole number, got 'few'"),
        ((*TOY, "--set", "rag.k=few"), "it must be a whole number, got 'few'"),
        ((*TOY, "--set", "model.dtype=1"), "it must be a text, got 1"),
        ((*TOY, "--retriever", "bm25(b=7)"), "it must be 1 or less, got 7"),
        (("judge", "run", "out", "--judge", "tiny", "--sample", "0"), "it must be 1 or more, got '0'"),
        (("judge", "run", "out", "--judge", "tiny", "--sample", "1", "--limit", "1"), "give one of them"),
        (("run", "list.yaml"), "write lines such as 'benchmark: tinyworld'"),
        ((*TOY, "--concurrency", "0"), "it must be 1 or more"),
        ((*TOY, "--mode", "batch:0"), "did you mean 'batch:N'"),
        ((*TOY, "--mode", "sequential:x"), "did you mean 'sequential:N'"),
        ((*TOY, "--reevaluate-at", "x"), "give numbers of edits"),
        ((*TOY, "--set", "rag.k"), "--set rag.k=3"),
        ((*TOY, "--set", "rag=@none.toml"), "name a TOML file"),
        ((*TOY, "--require", "efficacy=>1"), "efficacy>=90%"),
        (("model", "get", "gguf:none.gguf"), "check the name"),
        (("memory", "add", "--memory", "m"), "name files of JSON lines"),
        (("memory", "withdraw", "abc", "--memory", "none"), "create one with `emend memory add`"),
        (("ask", "--memory", "none", "--model", "tiny", "Who?"), "create one with `emend memory add`"),
        (("prepare", "covariance", "--model", "tiny", "--layers", "99"), "choose -6 to 5"),
        (("judge", "calibrate", "labels.jsonl", "--judge", "tiny"), "A line is to be like"),
        (("judge", "agreement", "nowhere"), "emend judge annotate RUN"),
        (("build", "questions", "--from", "none", "--model", "openai:x", "--out", "b"), "with .txt, .md"),
        (("build", "quetions", "--from", "none"), "did you mean 'questions'"),
        (("retrieval", "--benchmark", "tinyworld", "--strategy", "bm52"), "did you mean 'bm25'"),
        (("stream", "run", "turns.jsonl", "--system", "rag", "--model", "tiny"), "emend data chats"),
        (("reproduce", "akwe:2"), "did you mean 'akew'"),
        (("reproduce", "recoe:4", "--only", "method"), "--only method=MEMIT"),
        (("reproduce", "recoe:4", "--only", "method=InputAug,setting=direct"), "repeat --only"),
        (("list", "settings", "romee"), "did you mean 'rome'"),
        (("view", "nowhere"), "name a run folder"),
        (("data", "check", "list.yaml"), "write question and answer as fields"),
        (("judge", "leniency", "nowhere", "--judge", "tiny"), "`emend run` makes one"),
        (("report", "nowhere"), "`emend run` makes one"),
        (("sweep", "--benchmark", "tinyworld", "--over", "rag.k", "--out", "g"), "--over rag.k=1,3"),
        (("extract", "--benchmark", "tinyworld", "--method", "rulez", "--out", "t"), "did you mean 'rules'"),
    ],
)
def test_a_wrong_input_names_its_remedy(
    emend: Any, monkeypatch: Any, tmp_path: Path, words: tuple[str, ...], error: str
) -> None:
    monkeypatch.chdir(tmp_path)
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    output = emend(*words)
    assert output.code == 2
    assert error in output.err + output.out
    assert "Traceback" not in output.err
