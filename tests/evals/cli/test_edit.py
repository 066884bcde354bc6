"""`emend edit` and `emend prepare covariance`: output, files and refusals, and failed edits in a run."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from emend.agents.llm import load_model
from emend.editors.base import EditorContext
from emend.editors.parametric.finetune import FineTuning
from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.run import run
from emend.evals.log.records import read_records
from tests.evals.toys import BENCHMARK, toy_case
from tests.fakes import tiny_random_lm

EDITS = [
    {"subject": "Veldania", "relation": "capital", "object": "Kestrel Bay", "prompt": "The capital of {} is"},
    {"subject": "Veldania", "relation": "currency", "object": "florin"},
]
AT = (
    "layers=[0]", "v_num_grad_steps=12", "v_lr=0.5", "kl_factor=0.0", "v_weight_decay=0.0", "clamp_norm_factor=40.0",
    'prefixes=["So. "]', "covariance=identity",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tiny_random_lm("llama", tmp_path_factory.mktemp("models"), window=96)


@pytest.fixture
def emend(shell) -> Any:
    """Calls `emend` in a folder with edits and a corpus."""
    Path("edits.jsonl").write_text("".join(json.dumps(item) + "\n" for item in EDITS), encoding="utf-8")
    Path("text.txt").write_text("The capital of France is Paris.\nRome.\n" * 20, encoding="utf-8")
    return shell()


def settings(method: str, *pairs: str) -> list[str]:
    return [word for text in pairs for word in ("--set", f"{method}.{text}")]


def test_a_delta_is_saved_applied_and_reverted(emend, folder):
    spec = f"hf:{folder}"
    code, out, err = emend(
        "edit", "--model", spec, "--method", "rome", "--edits", "edits.jsonl", "--out", "delta", *settings("rome", *AT)
    )
    assert code == 0 and all(line.startswith("rome: 2 edits, ") for line in err.splitlines())  # progress, if it is slow
    assert out.startswith("2 edits by rome in delta: ") and " kB, " in out and " CPU s, " in out
    code, out, err = emend("edit", "--model", spec, "--apply", "delta", "--save-model", "edited")
    assert (code, err) == (0, "") and "with 2 edits by rome" in out and "emend edit --revert edited" in out
    pair = [("The capital of Veldania is", "Kestrel Bay")]
    models: list[Any] = [load_model(name, device="cpu") for name in (spec, "hf:edited")]
    base, edited = models
    assert edited.lm.log_probs(pair)[0].log_prob > base.lm.log_probs(pair)[0].log_prob
    assert emend("edit", "--revert", "edited")[:2] == (
        0,
        f"edited has the original weights of {base.lm.fingerprint} again; 2 edits reverted.\n",
    )
    back: Any = load_model("hf:edited", device="cpu")
    assert back.lm.log_probs(pair) == base.lm.log_probs(pair)
    code, out, err = emend("edit", "--revert", "edited")
    assert code == 2 and "nothing to revert" in err


@pytest.mark.slow
def test_a_reverted_folder_with_other_files_is_reported(emend, tmp_path):
    half = tiny_random_lm("llama", tmp_path, window=96)
    AutoModelForCausalLM.from_pretrained(half, dtype=torch.bfloat16).save_pretrained(half)
    words = ("--method", "rome", "--edits", "edits.jsonl", "--out", "delta", *settings("rome", *AT))
    assert emend("edit", "--model", f"hf:{half}", "--set", "model.dtype=float32", *words)[0] == 0
    assert emend("edit", "--model", f"hf:{half}", "--apply", "delta", "--save-model", "edited")[0] == 0
    code, out, _ = emend("edit", "--revert", "edited")
    assert code == 0 and "2 edits reverted" in out and "its files differ from those of the original" in out


@pytest.mark.slow
@pytest.mark.parametrize(
    "edit",
    [
        {"form": "triplet", "text": "Veldania currency florin", "triplets": [EDITS[1]]},
        EDITS[1] | {"question": "What is Veldania's currency?"},
    ],
)
def test_a_triplet_without_a_prompt_gets_prompt_subject_and_target(emend, folder, edit):
    Path("full.jsonl").write_text(json.dumps(edit), encoding="utf-8")
    words = ("--edits", "full.jsonl", "--out", "delta", "--json", *settings("rome", *AT))
    code, out, err = emend("edit", "--model", f"hf:{folder}", "--method", "rome", *words)
    assert code == 0, err
    (made,) = json.loads(out)["rows"][0]["edits"]
    assert (made["prompt"], made["subject"], made["target_new"]) == ("The currency of {} is", "Veldania", "florin")


def test_json_is_the_manifest_and_a_triplet_without_a_prompt_gets_one_from_its_relation(emend, folder):
    words = ("--edits", "edits.jsonl", "--out", "delta", "--json", *settings("memit", *AT))
    code, out, _ = emend("edit", "--model", f"hf:{folder}", "--method", "memit", *words)
    (row,) = json.loads(out)["rows"]
    assert code == 0 and row["method"] == "memit" and row["fingerprint"]["settings"]["v_num_grad_steps"] == 12
    assert [edit["prompt"] for edit in row["edits"]] == ["The capital of {} is", "The currency of {} is"]
    assert row["cost"]["edits"] == 2 and row["cost"]["seconds"] > 0


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((), "was given nothing: write one of"),
        (("--model", "tiny", "--out", "x"), "was given --model, --out: write one of"),
        (("--revert", "x", "--model", "tiny"), "was given --model, --revert"),
        (("--model", "tiny", "--method", "rag", "--edits", "edits.jsonl", "--out", "x"), "'rag' changes no weights"),
        (("--model", "tiny", "--method", "romme", "--edits", "edits.jsonl", "--out", "x"), "did you mean 'rome'"),
        (("--model", "tiny", "--method", "ft", "--edits", "none.jsonl", "--out", "x"), "cannot read 'none.jsonl'"),
        (("--model", "tiny", "--method", "ft", "--edits", "blank.jsonl", "--out", "x"), "no edit in blank"),
        (
            ("--model", "tiny", "--method", "ft", "--edits", "edits.jsonl", "--out", "x", "--set", "rag.k=1"),
            "--set names 'rag'",
        ),
        (("--model", "tiny", "--apply", "none", "--save-model", "y"), "no delta in 'none'"),
    ],
)
def test_invalid_options_are_one_line_before_a_model_is_loaded(emend, monkeypatch, words, told):
    from emend.agents import llm

    Path("blank.jsonl").write_text("\n")
    monkeypatch.setattr(llm, "load_tiny", lambda *_, **__: pytest.fail("loaded"))
    code, out, err = emend("edit", *words)
    assert code == 2 and out == "" and told in err and err.count("\n") == 1


def test_settings_can_come_from_a_file(emend, folder):
    Path("own.toml").write_text('layers = [1]\nnum_steps = 2\n[architecture]\nhead = "lm_head"\n')
    words = ("--method", "ft", "--edits", "edits.jsonl", "--out", "delta", "--json", "--set", "ft=@own.toml")
    (row,) = json.loads(emend("edit", "--model", f"hf:{folder}", *words)[1])["rows"]
    assert row["fingerprint"]["matrices"] == ["model.layers.1.mlp.down_proj"]
    assert row["fingerprint"]["settings"]["num_steps"] == 2


@pytest.mark.slow
def test_statistics_are_collected_once_and_found_by_the_editor(emend, folder):
    spec = f"hf:{folder}"
    words: tuple[str, ...] = (
        "prepare",
        "covariance",
        "--model",
        spec,
        "--layers",
        "0,1",
        "--corpus",
        "text.txt",
        "edits.txt",
    )
    code, _, err = emend(*words)
    assert code == 2 and "corpus 'edits.txt' does not exist: write emend prepare covariance" in err
    Path("edits.txt").write_text("Veldania lies in the north.\n")
    code, out, err = emend(*words)
    assert code == 0 and err.startswith("layers 0, 1: about ") and err.count("\n") == 1
    assert out.startswith("layers 0, 1: ") and " tokens of 41 texts, in " in out
    again = json.loads(emend(*words, "--json")[1])["rows"][0]
    assert again["texts"] == 41 and again["layers"] == [0, 1] and again["cap"] == 512
    made = settings("memit", "layers=[0,1]", "v_num_grad_steps=3", 'prefixes=["So. "]', "covariance=collected")
    words = ("--method", "memit", "--edits", "edits.jsonl", "--out", "delta", *made)
    assert emend("edit", "--model", spec, *words)[0] == 0
    assert list(Path(again["folder"]).glob("factor-*.safetensors"))
    code, _, err = emend("edit", "--model", spec, *(word if word != "delta" else "other" for word in words))
    assert (code, err) == (0, "")


def test_a_warning_follows_statistics_of_too_little_text(emend, folder):
    Path("short.txt").write_text("Rome.\n")
    code, out, err = emend("prepare", "covariance", "--model", f"hf:{folder}", "--layers", "0", "--corpus", "short.txt")
    assert code == 0 and out.startswith("layers 0: ") and err.count("\n") == 2
    assert "tokens, for keys of 64 numbers" in err and "over more text with `emend prepare covariance`" in err


def test_a_repeated_edit_is_solved_once_and_the_repetitions_are_counted(emend, folder, caplog):
    Path("twice.jsonl").write_text("".join(json.dumps(item) + "\n" for item in (*EDITS, *EDITS, EDITS[0])))
    words = ("--edits", "twice.jsonl", "--out", "delta", "--json", *settings("rome", *AT))
    code, out, _ = emend("edit", "--model", f"hf:{folder}", "--method", "rome", *words)
    (row,) = json.loads(out)["rows"]
    assert code == 0 and row["cost"]["edits"] == len(row["edits"]) == 2
    assert "3 of 5 duplicate edits left out" in caplog.text and "contradict" not in caplog.text


@pytest.mark.parametrize(
    ("other", "warned"),
    [
        (EDITS[0] | {"object": "Orland"}, True),
        (EDITS[0] | {"object": "Orland", "prompt": "{} is ruled from"}, True),
        (EDITS[0] | {"object": "Orland", "relation": "seat"}, True),
        (EDITS[0] | {"relation": "seat"}, False),
        (EDITS[0] | {"object": "Orland", "subject": "Sorn"}, False),
        ({"document": "Veldania moved its capital."}, False),
    ],
)
def test_contradicting_edits_are_logged(other, warned, caplog):
    from emend.evals.cli.edit_files import warn_of_contradictions
    from emend.memory.store.jsonl import edit_from

    warn_of_contradictions([edit_from(dict(item)) for item in (*EDITS, other)])
    assert ("edits contradict each other: '" in caplog.text) == warned and " more: leave out" not in caplog.text


def test_missing_statistics_name_the_command_that_collects_them(emend, folder):
    made = settings("rome", "layers=[0]", "v_num_grad_steps=3", 'prefixes=["So. "]')
    words = ("--method", "rome", "--edits", "edits.jsonl", "--out", "delta", *made)
    code, _, err = emend("edit", "--model", f"hf:{folder}", *words)
    assert code == 2 and f"emend prepare covariance --model hf:{folder}" in err


def test_wrong_layers_and_models_that_are_not_local_are_refused(emend, folder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    for words, number in (
        (("--model", f"hf:{folder}", "--layers", "a,b"), "--layers 'a,b' are not numbers"),
        (("--model", f"hf:{folder}", "--layers", "7"), "layer 7 does not exist in a model of 2 layers"),
        (
            ("--model", "openai:gpt-x", "--layers", "0"),
            "is not local, and this command reads the weights of",
        ),
    ):
        code, _, err = emend("prepare", "covariance", *words, "--corpus", "text.txt")
        assert code == 2 and number in err


@pytest.mark.slow
def test_an_edit_that_overflows_is_a_failed_unit_and_the_run_continues(folder, tmp_path):
    """With a stop between the edits' losses: those above it train, and overflow; those below need no step."""
    model: Any = load_model(f"hf:{folder}", device="cpu", dtype="float16", max_new_tokens=4)
    edits = [toy_case(place).edits[0] for place in range(4)]
    scored = model.lm.log_probs([(edit.cloze, edit.target_new) for edit in edits])
    losses = sorted(-scoring.log_prob / scoring.target_tokens for scoring in scored)
    harm = {"lr": 1e6, "num_steps": 3, "stop_loss": (losses[1] + losses[2]) / 2}
    before = {name: value.clone() for name, value in model.lm.model.state_dict().items()}
    config = RunConfig(
        benchmark=BENCHMARK,
        editors=("ft",),
        model="scripted",
        overrides={"ft": harm},
        benchmark_options={"cases": "4"},
        fail_on_error="false",
    )
    run(config, tmp_path / "run", model=model)
    failed = [json.loads(line) for line in (tmp_path / "run/errors.jsonl").read_text().splitlines()]
    assert len(failed) == 2 and all("overflowed at step 1 with a loss of nan" in json.dumps(line) for line in failed)
    assert len({record.case for record in read_records(tmp_path / "run")}) == 2
    assert all(bool((value == before[name]).all()) for name, value in model.lm.model.state_dict().items())
    assert FineTuning(EditorContext(model=model, settings={"num_steps": 2})).solve(edits[:1])
    model.close()


def test_a_refused_edit_leaves_no_folder(emend, folder):
    for item, said in (
        (("--prompt-template", "nosuch"), "unknown prompt template 'nosuch'"),
        (("--set", "rome.covariance=nosuch"), "no finished covariance in 'nosuch'"),
    ):
        code, _, err = emend(
            "edit", "--model", f"hf:{folder}", "--method", "rome", "--edits", "edits.jsonl", "--out", "delta", *item,
            "--set", "rome.layers=[0]",
        )  # fmt: skip
        assert code == 2 and said in err and not Path("delta").exists()


def test_options_without_effect_are_refused(emend, folder):
    given = (("--set", "rome.v_num_grad_steps=1"), ("--prompt-template", "plain"), ("--seed", "4"))
    for item in given:
        code, _, err = emend("edit", "--model", f"hf:{folder}", "--apply", "delta", "--save-model", "edited", *item)
        assert code == 2 and "has no effect in this form of emend edit" in err
    assert "--set model has no effect" in emend("edit", "--revert", "edited", "--set", "model.dtype=bfloat16")[2]


@pytest.mark.slow
def test_where_facts_are_recalled_is_traced_drawn_and_told_as_layers(emend):
    code, out, err = emend("edit", "--locate", "--model", "tiny", "--edits", "edits.jsonl", "--plot", "trace.png")
    assert code == 0, err
    assert "rome.layers=[" in out and "memit.layers=[" in out and "n = 2 facts" in out
    assert Path("trace.png").read_bytes().startswith(b"\x89PNG")
    code, out, _ = emend("edit", "--locate", "--model", "tiny", "--edits", "edits.jsonl", "--json")
    read = json.loads(out)
    assert code == 0 and {row["n"] for row in read["rows"]} == {2} and set(read["layers"][0]) == {"rome", "memit"}


def test_tracing_takes_paths_of_modules_and_refuses_other_settings(emend):
    where = ("edit", "--locate", "--model", "tiny", "--edits", "edits.jsonl")
    for words in (("--set", "rome.layers=[0]"), ("--prompt-template", "brief")):
        code, _, err = emend(*where, *words)
        assert code == 2 and "has no effect in this form of emend edit" in err
    code, _, err = emend(*where, "--set", 'rome.architecture={"block": "nowhere.{}"}')
    assert code == 2 and "nowhere" in err


def test_options_of_another_form_are_refused_with_the_forms(emend):
    for words in (("--locate", "--model", "tiny"), ("--plot", "x.png", "--model", "tiny", "--edits", "edits.jsonl")):
        code, _, err = emend("edit", *words)
        assert code == 2 and "--locate --model M --edits FILE" in err
