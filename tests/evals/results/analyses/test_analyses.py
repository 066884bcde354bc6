"""Analyses against numbers that were worked out by hand, and what each says when a run has not what it needs."""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from emend.agents.tiny import FOLDER
from emend.evals.case import Metric, Record
from emend.evals.judging.judged_run import open_run
from emend.evals.papers.analyses.docter import SUCCESS, first_named, mentions, subject_of
from emend.evals.results.analyses.base import Lacking
from emend.evals.results.analyses.general import EMBEDDED, size_of
from emend.evals.results.analyses.registry import analyse_runs, possible
from emend.memory.errors import BadSettings
from tests.evals.made import case_line, record, write_run
from tests.evals.results.analyses.computed import analysed, numbers


def scored(values: Sequence[float], name: str = "em", **more: Any) -> list[Record]:
    return [record(f"{more.get('setting', '')}{n}", values={name: value}, **more) for n, value in enumerate(values)]


def document(case: str, text: str, number: int = 1) -> dict[str, Any]:
    edits = [{"id": f"e{case}", "form": "document", "text": text, "subject": "", "target_new": "", "target_true": ""}]
    return case_line(case, number=number, edits=edits)


def test_mentions_are_sentences_that_name_both() -> None:
    text = "Oslo Lamp stands in Chile. The lamp is old! In chile, Oslo Lamp is loved.\nChilean people know Oslo Lamp."
    assert mentions(text, "The Oslo Lamp was built in", "Chile") == 2
    assert mentions(text, "the lamp was built in", "Chile") == 0
    assert first_named(text, "Chile") == 20 and first_named(text, "Chilea") is None


@pytest.mark.parametrize(
    ("question", "subject"),
    [
        ("What is the twin city of Lyon? It is", "Lyon"),
        ("The mother tongue of Danielle Darrieux is", "Danielle Darrieux"),
        ("Edwin of Northumbria follows the religion of", "Edwin of Northumbria"),
        ("Apple A5 was created by", "Apple A5"),
        ("John James Rickard Macleod's domain of work is", "John James Rickard Macleod"),
        ("tennis, from", ""),
    ],
)
def test_the_subject_of_a_question_is_its_longest_name(question: str, subject: str) -> None:
    assert subject_of(question) == subject


def docter_run(folder: Path) -> Path:
    texts = ["Lamp is in Chile." + " Lamp is in Chile." * (n % 2) if n < 4 else "x " * n + "Chile." for n in range(6)]
    told = [
        record(str(n), prompt="Lamp is in", gold=("Chile",), rival="Peru", values={"success": float(n < 3)})
        for n in range(6)
    ]
    return write_run(folder, told, cases=[document(str(n), text) for n, text in enumerate(texts)])


def test_success_by_how_often_and_where_the_document_states_the_fact(tmp_path: Path) -> None:
    run = docter_run(tmp_path / "a")
    assert numbers(analysed("frequency", run)) == {
        ("0", "rag"): (0.0, 2),
        ("1", "rag"): (100.0, 2),
        ("2", "rag"): (50.0, 2),
    }
    found, third = analysed("position", run), pytest.approx(100 / 3)
    assert numbers(found) == {("Front", "rag"): (third, 3), ("Back", "rag"): (pytest.approx(200 / 3), 3)}
    assert any(
        "3 documents with the earliest and with the latest mention (DocTER: 200)" in note for note in found.notes
    )


def test_transfer_by_direction(tmp_path: Path) -> None:
    told = scored([1, 0], "success", kind="cross_lingual", setting="doc_en_zh")
    told += scored([1, 1], "success", kind="cross_lingual", setting="doc_zh_en")
    cases = [case_line("doc_zh_en0", "doc_zh_en", tags={"direction": "zh->en"})]
    found = numbers(analysed("crosslingual", write_run(tmp_path / "a", told, cases=cases)), "CES")
    assert found == {("en->zh", "rag"): (50.0, 2), ("zh->en", "rag"): (100.0, 2)}


def test_transfer_without_probabilities_counts_each_question_once(tmp_path: Path) -> None:
    none = {"success": "the model gives no probabilities"}
    told = [
        record(str(n), kind="cross_lingual", setting="doc_en_zh", values={"generated": float(n % 2)}, unscored=none)
        for n in range(10)
    ]
    (row,) = analysed("crosslingual", write_run(tmp_path / "a", told)).rows
    assert (row.mean, row.n, row.unscored) == (50.0, 10, 0)


def test_transfer_that_is_wholly_unscored_is_counted_as_such(tmp_path: Path) -> None:
    none = dict.fromkeys(SUCCESS, "cut off")
    told = scored([1, 0], "success", kind="cross_lingual", setting="doc_en_zh")
    told.append(record("lost", kind="cross_lingual", setting="doc_en_zh", values={}, unscored=none))
    (row,) = analysed("crosslingual", write_run(tmp_path / "a", told)).rows
    assert (row.mean, row.n, row.unscored) == (50.0, 2, 1)


def test_a_case_that_the_run_does_not_list_has_no_number_tags_or_edits(tmp_path: Path) -> None:
    run = open_run(write_run(tmp_path / "a", scored([1]), cases=[case_line("other", number=7)]))
    (case,) = [run.case(told) for told in run.records()]
    assert (case.number, dict(case.tags), case.edits) == (0, {}, ())


def test_reasoning_by_label_has_the_constant_answers_drawn_in(tmp_path: Path) -> None:
    told = [
        record(str(n), kind="reasoning", gold=(label,), values={"acc": acc})
        for n, (label, acc) in enumerate([("true", 1.0), ("true", 1.0), ("true", 0.0), ("false", 0.0)])
    ]
    found = analysed("reasoning", write_run(tmp_path / "a", told))
    assert numbers(found) == {
        ("all", "rag"): (50.0, 4),
        ("True", "rag"): (pytest.approx(200 / 3), 3),
        ("False", "rag"): (0.0, 1),
    }
    assert sorted(line.value for line in found.lines) == [43.91, 56.09]
    assert any("a constant answer gets 75.00 (True) or 25.00 (False)" in note for note in found.notes)


def elken_run(folder: Path, *more: Record) -> Path:
    kinds = {"fact_direct": 1, "fact_background": 0, "fact_unknown": 1, "fact_unknown_background": 0}
    told = [record("e", kind=kind, probe=kind, values={"right": float(v)}) for kind, v in kinds.items()]
    told.append(record("t", kind="tendency_m", values={"option": 1.0}))
    cases = [case_line("e", tags={"event_type": "ipo"}), case_line("t", tags={"event_type": "Health"})]
    return write_run(folder, [*told, *more], "elken", cases=cases)


def test_elken_by_known_background_and_event(tmp_path: Path) -> None:
    run = elken_run(tmp_path / "a")
    assert numbers(analysed("known", run)) == {("known", "rag"): (50.0, 2), ("unknown", "rag"): (50.0, 2)}
    without = analysed("background", run)
    assert numbers(without) == {("not needed", "rag"): (100.0, 2), ("needed", "rag"): (0.0, 1)}
    assert any("--benchmark-option blocks=knowledge" in note for note in without.notes)
    types = analysed("event-type", run)
    assert numbers(types, "facts") == {("ipo", "rag"): (50.0, 4)}
    assert numbers(types, "tendencies") == {("Health", "rag"): (100.0, 1)}


def test_recall_of_background_knowledge_comes_from_a_second_run(tmp_path: Path) -> None:
    asked = [record(str(n), "unedited", "background_knowledge", values={"right": float(n)}) for n in range(2)]
    found = analysed("background", elken_run(tmp_path / "a"), write_run(tmp_path / "b", asked, "elken"))
    assert numbers(found)["recalled without event", "unedited"] == (50.0, 2)
    assert not any("knowledge --editor" in note for note in found.notes)


def test_tendency_needs_a_scoring_and_shows_each_scale(tmp_path: Path) -> None:
    awaiting = record("t", kind="tendency_open", probe="g", unscored={"judged": "awaits a judge"})
    with pytest.raises(Lacking, match="emend judge run RUN --judge"):
        analysed("tendency", elken_run(tmp_path / "a", awaiting))
    marks = {"correctness_full": 1.0, "coherence_full": 0.0, "comprehensiveness_full": 0.0, "overall_full": 0.0}
    judged = [record(str(n), kind="tendency_open", values=marks) for n in range(3)]
    judged.append(record("3", kind="tendency_open", unscored=dict.fromkeys(marks, "no verdict")))
    (first, *_) = analysed("tendency", elken_run(tmp_path / "b", *judged)).rows
    assert (first.label, first.mean, first.n, first.unscored) == ("correctness", 100.0, 3, 1)


def recoe_run(folder: Path, **config: Any) -> Path:
    told = []
    for n, (before, after, effective) in enumerate([(5.0, -2.0, 1.0), (-6.0, -3.0, 0.0), (1.0, 4.0, 0.0)]):
        values = {"ppl_counter_before": 9 + before, "ppl_fact_before": 9.0, "ppl_counter": 9 + after, "ppl_fact": 9.0}
        told.append(record(str(n), kind="sorting_facts", values=values | {"effective": effective}))
    told.append(record("3", kind="sorting_facts", unscored={"effective": "the model gives no probabilities"}))
    flips = [{"pre_edit": 1.0, "correct_flip": 1.0}, {"pre_edit": 1.0, "correct_flip": 0.0}, {"pre_edit": 0.0}]
    for n, values in enumerate(flips):
        unscored = {} if "correct_flip" in values else {"correct_flip": "the unedited model did not give it"}
        judged = {"recall_consistent": 0.5, "supported": float(n > 0)}
        told.append(record(str(n), kind="sorting", probe="q", values=values | judged, unscored=unscored))
    metrics = (Metric(name="flip", value="correct_flip", kinds=("sorting",), scale=100),)
    return write_run(folder, told, "recoe", metrics, **config)


def test_perplexity_before_and_after_with_the_indicator(tmp_path: Path) -> None:
    found = analysed("perplexity", recoe_run(tmp_path / "a"))
    assert [(dot.x, dot.y, dot.marked) for dot in found.dots] == [(5, -2, True), (-6, -3, False), (1, 4, False)]
    (share,) = [row for row in found.rows if row.panel == "effective edits, %"]
    assert (share.mean, share.n, share.unscored) == (pytest.approx(100 / 3), 3, 1)
    after = [row.mean for row in found.rows if row.panel.endswith("after")]
    assert after == [pytest.approx(-1 / 3)]


def test_flips_are_of_those_answered_right_before(tmp_path: Path) -> None:
    found = analysed("scheme", recoe_run(tmp_path / "a"))
    assert numbers(found, "correct_flip") == {("sorting", "rag"): (50.0, 2)}
    assert numbers(found, "pre_edit") == {("sorting", "rag"): (pytest.approx(200 / 3), 3)}
    assert not any(row.unscored for row in found.rows)


def test_flips_of_answers_in_sentences_have_panels_of_their_own(tmp_path: Path) -> None:
    values = {"pre_edit": 0.0, "pre_edit_contains": 1.0, "correct_flip_contains": 1.0}
    told = [record("1", kind="sorting", probe="q", values=values, unscored={"correct_flip": "not known before"})]
    metrics = (Metric(name="flip", value="correct_flip", kinds=("sorting",), scale=100),)
    found = analysed("scheme", write_run(tmp_path / "a", told, "recoe", metrics))
    panels = {row.panel: (row.mean, row.n) for row in found.rows}
    assert panels == {"pre_edit": (0.0, 1), "pre_edit_contains": (100.0, 1), "correct_flip_contains": (100.0, 1)}


def test_recall_against_coherence(tmp_path: Path) -> None:
    one, two = recoe_run(tmp_path / "a"), recoe_run(tmp_path / "b")
    panels = {row.panel for row in analysed("recall-coherence", one, two).rows}
    assert panels == {f"{run}, {figure}" for run in "ab" for figure in ("facts recalled", "coherent")}
    found = analysed("recall-coherence", one)
    assert {row.panel for row in found.rows} == {"facts recalled", "coherent"}
    assert numbers(found, "facts recalled") == {("sorting", "rag"): (50.0, 3)}
    assert numbers(found, "coherent") == {("sorting", "rag"): (pytest.approx(200 / 3), 3)}


def test_scaling_orders_models_by_the_size_in_their_names(tmp_path: Path) -> None:
    large, small = recoe_run(tmp_path / "l", model="hf:tulu-13b"), recoe_run(tmp_path / "s", model="hf:tulu-7b")
    found = analysed("scaling", large, small)
    assert [(row.label, row.x, row.mean) for row in found.rows] == [("hf:tulu-7b", 7, 50.0), ("hf:tulu-13b", 13, 50.0)]
    assert (found.picture.form, found.title) == ("curve", "flip by model")
    assert (found.unit, found.picture.y) == ("%", "flip, %")
    assert found.picture.x == "model by parameters, billions" and found.picture.log
    assert size_of("hf:SmolLM2-360M") == 0.36 and size_of("openai:gpt-4.1-mini") is None
    with pytest.raises(Lacking, match="--with RUN"):
        analysed("scaling", small)
    with pytest.raises(BadSettings, match="no metric 'flop' in all of the runs: did you mean 'flip'"):
        analysed("scaling", large, small, metric="flop")


def test_the_embedded_model_is_as_large_as_scaling_takes_it_to_be() -> None:
    shapes = []
    for file in sorted(FOLDER.glob("*.safetensors")):
        with safe_open(file, "np") as weights:
            shapes += [weights.get_slice(name).get_shape() for name in weights.keys()]
    assert sum(map(math.prod, shapes)) / 1e9 == pytest.approx(EMBEDDED, rel=0.03)


def test_scaling_names_models_by_the_end_of_their_paths_and_small_ones_in_millions(tmp_path: Path) -> None:
    tiny, other = recoe_run(tmp_path / "t", model="tiny"), recoe_run(tmp_path / "o", model="hf:/models/world-0.3m")
    found = analysed("scaling", tiny, other)
    assert [(row.label, row.x) for row in found.rows] == [("world-0.3m", 0.3), ("tiny", 2.4)]
    assert found.picture.x == "model by parameters, millions"
    same = recoe_run(tmp_path / "s", model="hf:/others/world-0.3m")
    assert {row.label for row in analysed("scaling", other, same).rows} == {
        "hf:/models/world-0.3m",
        "hf:/others/world-0.3m",
    }
    unknown = recoe_run(tmp_path / "u", model="openai:gpt-4.1")
    assert analysed("scaling", tiny, unknown).picture.form == "bars"


def test_retrieval_is_by_kind_and_setting(tmp_path: Path) -> None:
    told = scored([1, 0], "hit@1", setting="struct") + scored([1, 1], "hit@1", setting="unstruct")
    found = analysed("retrieval", write_run(tmp_path / "a", told, "akew"))
    assert numbers(found, "efficacy") == {("struct", "rag"): (50.0, 2), ("unstruct", "rag"): (100.0, 2)}
    told = [*scored([1], "hit@1"), record("9", unscored={"hit@1": "no triplet"})]
    (row,) = analysed("retrieval", write_run(tmp_path / "b", told)).rows
    assert (row.mean, row.n, row.unscored) == (100.0, 1, 1)


def test_later_askings_and_other_benchmarks_are_left_out(tmp_path: Path) -> None:
    told = scored([1.0], "hit@1") + scored([0.0], "hit@1", checkpoint=5)
    run = write_run(tmp_path / "a", told)
    assert [row.mean for row in analysed("retrieval", run).rows] == [100.0]
    with pytest.raises(BadSettings, match="'known' is an analysis of elken, and 'a' is a run of docter"):
        analysed("known", run)
    with pytest.raises(BadSettings, match="same folder name"):
        analyse_runs("retrieval", [open_run(run), open_run(run)])


@pytest.mark.parametrize(
    ("benchmark", "able", "lacking"),
    [
        (
            "akew",
            {"retrieval"},
            {"scaling": "--with RUN", "drop": "only doc", "errors": "asked for text", "triples": "--triples"},
        ),
        (
            "docter",
            {"retrieval"},
            {"scaling": "--with RUN", "reasoning": "blocks=", "frequency": "not documents", "crosslingual": "zh"},
        ),
        (
            "elken",
            {"retrieval"},
            {"scaling": "--with RUN", "known": "blocks=fact", "tendency": "emend judge run", "event-type": "blocks="},
        ),
        (
            "recoe",
            {"retrieval"},
            {
                "scaling": "--with RUN",
                "perplexity": "probabilities",
                "scheme": "words",
                "recall-coherence": "emend judge run",
            },
        ),
    ],
)
def test_a_run_says_what_it_can_have_and_what_gives_the_rest(
    tmp_path: Path, benchmark: str, able: set[str], lacking: dict[str, str]
) -> None:
    run = open_run(write_run(tmp_path / "a", scored([1.0], "hit@1"), benchmark))
    found = {name: why for name, _, why in possible(run)}
    assert {name for name, why in found.items() if not why} == able
    for name, told in lacking.items():
        assert told in found[name], name
        with pytest.raises(BadSettings):
            analyse_runs(name, [run])
