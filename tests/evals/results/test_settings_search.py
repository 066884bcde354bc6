"""`emend prepare tune`: which facts are searched on, what is tried, what a score is, and going on after a stop."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from emend.editors.hyperparameters import read_settings, search_space, shipped_settings
from emend.evals.config.measure_config import TuneConfig
from emend.evals.evaluate.resources import load_benchmark
from emend.evals.log.folder import locked
from emend.evals.results.settings_search import (
    divide_cases,
    draw_settings,
    read_journal,
    score_of,
    settings_file,
    tune,
)
from emend.memory.errors import BadData, BadSettings, RunRefused
from tests.evals.command_line import emend

CONFIG = TuneConfig(
    benchmark="tinyworld", model="tiny", limit=4, train=4, trials=3, overrides={"ft": {"num_steps": 10}}
)


def subjects(cases):
    return {edit.subject for case in cases for edit in case.edits}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, 1])
def test_facts_that_are_searched_on_share_no_subject_with_those_that_a_run_evaluates(seed):
    config = CONFIG.model_copy(update={"seed": seed})
    benchmark, (setting, *_) = load_benchmark("tinyworld", None, {})
    training, test = divide_cases(benchmark, setting, config)
    assert [case.id for case in test] == [case.id for case in benchmark.cases(setting, 4, seed)]
    assert len(training) == 4 and not subjects(training) & subjects(test)


def test_a_search_that_another_process_does_is_refused(tmp_path, capsys):
    out = tmp_path / "ft.toml"
    with locked(tmp_path / f"{out.name}.trials.jsonl.lock", "searching"):
        assert emend("prepare", "tune", "ft", "--model", "tiny", "--benchmark", "tinyworld", "--out", str(out))
    assert "another process is writing" in capsys.readouterr().err and not out.exists()


@pytest.mark.slow
def test_the_settings_are_written_while_no_other_search_can_write_them(tmp_path, monkeypatch):
    out, replace, seen = tmp_path / "ft.toml", Path.replace, []

    def replace_under_lock(draft, target):
        if target == out:
            with pytest.raises(RunRefused), locked(tmp_path / "ft.toml.trials.jsonl.lock", "searching"):
                pass
            seen.append(target)
        return replace(draft, target)

    monkeypatch.setattr(Path, "replace", replace_under_lock)
    words = ("--benchmark", "tinyworld", "--limit", "4", "--train", "4", "--trials", "2", "--set", "ft.num_steps=2")
    assert emend("prepare", "tune", "ft", "--model", "tiny", *words, "--out", str(out)) == 0
    assert seen == [out] and read_settings(out)["num_steps"] == 2


@pytest.mark.slow
def test_a_benchmark_without_other_facts_is_refused():
    benchmark, (setting, *_) = load_benchmark("tinyworld", None, {})
    with pytest.raises(BadSettings, match="smaller --limit"):
        divide_cases(benchmark, setting, CONFIG.model_copy(update={"limit": None}))


def architecture(layers):
    config = SimpleNamespace(model_type="llama", hidden_size=64, num_hidden_layers=layers)
    config.get_text_config = lambda: config
    return config


@pytest.mark.parametrize("editor", ["ft", "lora", "memit", "alphaedit", "rome"])
def test_the_defaults_come_first_and_others_are_drawn_with_layers_of_the_model(editor):
    drawn = draw_settings(editor, architecture(16), 8, seed=0)
    assert drawn[0] == {} and len(drawn) == 8 and drawn == draw_settings(editor, architecture(16), 8, seed=0)
    assert drawn != draw_settings(editor, architecture(16), 8, seed=1)
    for settings in drawn[1:]:
        assert {*settings} <= {*shipped_settings(editor)}
        assert all(0 <= layer < 16 for layer in settings.get("layers", ()))


def test_an_editor_without_a_search_space_is_refused_with_those_that_have_one(tmp_path):
    assert search_space("rag") == {}
    with pytest.raises(BadSettings, match="'rag' has no settings to search.*memit"):
        tune(CONFIG, "rag", tmp_path / "journal.jsonl")


def measured(perplexity, **means):
    """A report of an editor `x` with these means in percent, by kind of probe."""
    metrics = [
        SimpleNamespace(name=kind, kinds=(kind,), share=True, scale=100, higher_is_better=True) for kind in means
    ]
    rows = [SimpleNamespace(editor="x", metric=kind, mean=mean) for kind, mean in means.items()]
    texts = [SimpleNamespace(editor="x", ratio=float("inf") if perplexity is None else perplexity / 10.0)]
    return SimpleNamespace(metrics=metrics, rows=rows, perplexity=texts)


def test_the_score_is_a_harmonic_mean_and_a_broken_model_has_none():
    good = measured(12.0, efficacy=100.0, paraphrase=50.0, neighborhood=100.0)
    assert score_of(good, "x") == pytest.approx(75.0)
    assert score_of(measured(20.1, efficacy=100.0, paraphrase=50.0, neighborhood=100.0), "x") == 0
    assert score_of(measured(None, efficacy=100.0), "x") == 0  # too large for a number
    assert score_of(measured(10.0, efficacy=100.0, neighborhood=0.0), "x") == 0
    assert score_of(measured(10.0), "x") is None


@pytest.mark.slow
def test_what_was_tried_is_not_tried_again_and_the_file_is_one_of_settings(tmp_path):
    journal, seen = tmp_path / "ft.toml.trials.jsonl", []
    first = tune(CONFIG, "ft", journal, lambda trial, number, of: seen.append(trial.key))
    lines = journal.read_text().splitlines()
    assert len(lines) == len(set(seen))
    journal.write_text("\n".join([*lines[:2], lines[2][:20]]))  # interrupted while the third was written
    assert len(read_journal(journal)) == 2
    journal.write_text("\n".join(lines) + "\n")
    again = tune(CONFIG, "ft", journal)
    assert again == first and journal.read_text().splitlines() == lines
    assert first.default.facts == 4 and first.default.score is not None and first.default.metrics[0].n
    file = tmp_path / "ft.toml"
    file.write_text(settings_file(CONFIG, first))
    assert read_settings(file) == {"num_steps": 10, **first.settings}


@pytest.mark.parametrize("content", [b"{}\n", b"\xff\n"])
def test_a_file_that_is_no_journal_is_refused(tmp_path, content):
    (tmp_path / "other.jsonl").write_bytes(content)
    with pytest.raises(BadData, match="another --out"):
        read_journal(tmp_path / "other.jsonl")


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_a_journal_that_is_no_file_is_refused(tmp_path, make):
    make(tmp_path / "journal.jsonl")
    with pytest.raises(BadData, match=r"journal\.jsonl"):
        read_journal(tmp_path / "journal.jsonl")
