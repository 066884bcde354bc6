"""UniEdit's loader on rows of the published form, and its criteria beside those of the published code.

`criteria_cases.json` has 60 chains with the criteria that the repository's `get_gen_patterns` and `get_loc_patterns`
gave for them. The scores are checked in `metrics/test_tokens.py`.
"""

import json

import pytest

from emend.evals.data.benchmarks.editing.uniedit import (
    ClozeFact,
    HopChain,
    UniEdit,
    criteria_of_generality,
    criteria_of_locality,
)
from emend.memory.errors import BadData, BadSettings, MissingData
from tests.paths import DATA

FIXTURE = DATA / "uniedit"
CHAINS = json.loads((DATA / "editing" / "criteria_cases.json").read_text("utf-8"))


def cases_of(**options):
    return list(UniEdit(FIXTURE, options).cases("fact"))


@pytest.mark.parametrize("number", range(len(CHAINS)))
def test_criteria_are_those_of_the_published_code(number):
    row = CHAINS[number]
    edit, generality, locality = ClozeFact(**row["edit"]), HopChain(**row["generality"]), HopChain(**row["locality"])
    assert criteria_of_generality(generality) == row["of_generality"]
    assert sorted(criteria_of_locality(edit, locality)) == sorted(row["of_locality"])


def test_a_row_asks_for_the_fact_a_chain_from_it_and_a_chain_that_stays():
    first, second, _ = cases_of()
    assert [probe.kind for probe in first.probes] == ["reliability", "generality", "locality"]
    assert first.probes[1].tags == {"multi_hop": True, "subject_alias": True, "object_alias": True}
    assert first.probes[2].tags == {"subject_specificity": True} and not first.probes[2].in_scope
    assert first.edits[0].triplets[0].relation == "keeper" and first.tags["domain"] == "civil engineering"
    assert second.probes[1].prompt.endswith("The answer is (Yes/No):")
    assert second.probes[1].choices == ("Yes", "No") and second.probes[1].tags == {"same_entity": True}


def test_a_chain_that_another_edit_changes_is_not_asked():
    kinds = [[probe.kind for probe in case.probes] for case in cases_of()]
    assert kinds[2] == ["reliability", "generality"], "its fact is the first row's edit"
    assert kinds[1] == ["reliability", "generality", "locality"], "another keeper of the third row's arch"
    (alone,) = UniEdit(FIXTURE)._chosen([UniEdit(FIXTURE)._numbered[2]])
    assert [probe.kind for probe in alone.probes] == ["reliability", "generality", "locality"]


def test_the_other_facts_of_a_chain_can_be_edited_in():
    first, second, _ = cases_of(hops="edited")
    assert [edit.target_new for edit in first.edits] == ["Ana Rojo", "Veld"]
    assert [edit.subject for edit in second.edits] == ["Aske Weir", "Locks"]
    assert all(probe.edit_ids in ((first.edits[0].id,), ()) for probe in first.probes)


@pytest.mark.parametrize(
    ("options", "error", "named"),
    [({"domains": "art"}, BadSettings, "one of civil engineering"), ({"hops": "no"}, BadSettings, "edited")],
)
def test_what_is_not_there_is_named(options, error, named):
    with pytest.raises(error, match=named):
        UniEdit(FIXTURE, options)


def test_an_empty_folder_is_named(tmp_path):
    with pytest.raises(MissingData, match="qizhou/UniEdit"):
        UniEdit(tmp_path)


@pytest.mark.parametrize(
    ("content", "named"),
    [([], "object"), ({"7": {"edit": {}}}, "row '7', field 'edit.prompt'"), ({"7": 3}, "row '7'")],
)
def test_a_file_of_another_form_is_a_fault_with_row_and_field(tmp_path, content, named):
    (tmp_path / "art.json").write_text(json.dumps(content), "utf-8")
    with pytest.raises(BadData, match=named):
        list(UniEdit(tmp_path).cases("fact"))


def test_an_item_that_is_no_entity_is_a_fault(tmp_path):
    rows = json.loads((FIXTURE / "civil engineering.json").read_text("utf-8"))
    rows["1"]["edit"]["tail_entity"]["value"] = "Ana"
    (tmp_path / "art.json").write_text(json.dumps(rows), "utf-8")
    with pytest.raises(BadData, match="row '1', field 'edit.tail_entity"):
        list(UniEdit(tmp_path).cases("fact"))


def test_provenance_names_the_repository_and_counts_the_rows():
    provenance = UniEdit(FIXTURE).provenance
    assert provenance["cases"] == 3 and "72ae7f8" in provenance["source"]
