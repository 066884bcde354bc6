"""Retrieval over conversations: evidence by turn and session, budgets, updates, pairs and corrections."""

import json
import math
from pathlib import Path

import pytest

from emend.evals.config.measure_config import RetrievalConfig
from emend.evals.measure.conversations import (
    ConversationReport,
    ConversationRow,
    load_conversations,
    measure_conversations,
    ndcg,
    newer_first,
    values_of,
)
from emend.evals.show.report.conversations import conversation_lines, conversation_notes
from emend.memory.errors import BadSettings
from emend.memory.probe import Probe
from emend.memory.retrieval.base import Entry, Hit
from tests.paths import DATA


def measured(name: str, *strategies: str, **more) -> ConversationReport:
    config = RetrievalConfig.model_validate(
        {"benchmark": name, "data": str(DATA / name), "strategies": strategies, "embedding": "lexical"} | more
    )
    benchmark = load_conversations(config)
    assert benchmark is not None
    return measure_conversations(config, benchmark)


def row(report: ConversationReport, strategy: str, kind: str) -> ConversationRow:
    (item,) = [row for row in report.rows if (row.strategy, row.kind) == (strategy, kind)]
    return item


def hits(*names: str) -> list[Hit]:
    return [Hit(entry=Entry(id=name, edit_id=name, text="a text of 20 bytes!!"), score=1.0) for name in names]


def probe(*gold: str, newer: str = "", outdated: str = "") -> Probe:
    return Probe(kind="x", prompt="?", gold=("y",), edit_ids=gold, newer_ids=(*newer,), outdated_ids=(*outdated,))


def test_values_are_shares_of_the_evidence_by_turn_session_and_budget():
    sessions = {"a": "1", "b": "1", "c": "2", "d": "3"}
    values = values_of(probe("b", "d"), hits("a", "b", "c"), sessions, [5])
    assert (values["recall@5"], values["all@10"]) == (0.5, 0.0)
    assert values["ndcg@10"] == pytest.approx((1 / math.log2(3)) / (1 + 1 / math.log2(3)))
    assert values["session_recall@5"] == 0.5
    assert values["recall_in_budget"] == 0.0, "one turn of five tokens fits, and it is no evidence"
    assert values_of(probe("b", "d"), hits("a", "b"), sessions, [10])["recall_in_budget"] == 0.5
    assert ndcg(["a"], {"a"}, 10) == 1.0


def test_an_update_counts_if_both_statements_are_named_and_differ():
    both = {"newer": "n", "outdated": "op"}
    assert newer_first(probe("n", **both), ["n", "o"]) == 1.0
    assert newer_first(probe("n", **both), ["o", "n"]) == 0.0
    assert newer_first(probe("n", **both), ["x"]) == 0.0, "neither is found"
    assert newer_first(probe("n", newer="n"), ["n"]) is None
    assert newer_first(probe("n", newer="n", outdated="n"), ["n"]) is None


def test_each_conversation_is_searched_by_itself_and_strategies_are_paired():
    report = measured("locomo", "bm25(tokens=stems)", "conversation")
    assert (report.conversations, report.turns, report.skipped) == (3, 18, 0)
    every = row(report, "conversation", "all")
    assert every.n == 15 and every.figures["recall@10"].mean == 1.0, (
        "six turns fit ten places, of one's own conversation"
    )
    assert row(report, "conversation", "multi_hop").n == 3
    pair = next(pair for pair in report.pairs if pair.kind == "all")
    assert (pair.strategy, pair.against, pair.result.n) == ("conversation", "bm25(tokens=stems)", 15)
    lines = conversation_lines(report)
    assert {"recall@10", "recall@10_low", "ndcg@10", "session_recall@5"} <= lines[0].keys()


def test_several_budgets_are_figures_of_their_own_in_one_measurement():
    report = measured("locomo", "bm25(tokens=stems)", budget=(20, 50, 20))
    figures = row(report, "bm25(tokens=stems)", "all").figures
    alone = [measured("locomo", "bm25(tokens=stems)", budget=(budget,)) for budget in (20, 50)]
    expected = [row(each, "bm25(tokens=stems)", "all").figures["recall_in_budget"] for each in alone]
    assert [figures["recall_in_20"], figures["recall_in_50"]] == expected
    assert "recall_in_budget" not in figures
    assert any("20, 50 tokens" in note for note in conversation_notes(report))


def test_the_newer_statement_of_an_update_stands_first():
    report = measured("beam", "bm25(tokens=stems)", "conversation")
    assert row(report, "conversation", "knowledge_update").figures["newer_first"].mean == 1.0
    assert "newer_first" not in row(report, "conversation", "instruction_following").figures
    assert report.skipped == 2 and any("2 questions" in note for note in conversation_notes(report))


def test_corrections_are_counted_in_the_notes(tmp_path: Path):
    file = tmp_path / "errors.json"
    entry = {"question_id": "locomo_0_qa0", "question": "Which pet did Tom adopt?", "correct_answer": "a grey cat"}
    file.write_text(json.dumps([entry]))
    report = measured("locomo", "none", corrections=str(file))
    assert report.corrections is not None and report.corrections.corrected == 1
    assert any("1 answers were corrected" in note for note in conversation_notes(report))


def test_options_for_other_benchmarks_are_refused():
    with pytest.raises(BadSettings, match="--calibrate"):
        measured("locomo", calibrate="multi_hop")
    assert load_conversations(RetrievalConfig(benchmark="tinyworld")) is None
