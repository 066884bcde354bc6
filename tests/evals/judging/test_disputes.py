"""An acceptance without words that bear it out is disputed, and settled by a panel, a second judge or people."""

import csv
import json

import pytest

from emend.agents.judging.base import Item, Verdict
from emend.agents.judging.evidence import NOT_QUOTED, VAGUE
from emend.evals.judging.annotation import AnnotationKey, read_key, read_sheets, write_labels, write_sheets
from emend.evals.judging.calibration.labels import read_labels
from emend.evals.judging.disputes import CONTRADICTED, DISPUTED, PEOPLE, find_dispute
from emend.evals.judging.judgement import Judgement
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.judging.scorings.judgements import read_judgements
from emend.evals.judging.scorings.manifest import FOLDER, Scoring
from emend.evals.judging.scorings.search import list_scorings
from emend.evals.judging.scorings.verdicts import dispute_counts, open_disputes
from emend.evals.judging.settlement import settle_by_people
from emend.evals.judging.study import draw, load_study
from emend.evals.judging.votes import combine
from emend.evals.results.aggregate.rows import report
from emend.graphs.registry import JUDGES
from emend.memory.errors import BadSettings
from tests.evals.judged_runs import JUDGE, PANEL, as_earlier, judge_model, rows, scored
from tests.fakes import ScriptedChatModel

pytestmark = pytest.mark.usefixtures("own_cache")
EQUIVALENCE, COHERENCE = JUDGES.load("equivalence"), JUDGES.load("coherence")
YES, NO = Verdict(values={"equivalent": 1.0}), Verdict(values={"equivalent": 0.0})
SECOND = "openai:second"


def item(reply: str) -> Item:
    return Item.of("equivalence", question="Who leads the museum?", one=reply, other="Halvard Brenn\nBrenn")


# --- one verdict


def test_an_acceptance_is_disputed_where_reply_or_quotation_lacks_the_specifics():
    role = EQUIVALENCE.role
    assert find_dispute(role, item("It is Brenn."), YES) == ""
    assert find_dispute(role, item("Somebody able"), YES) == VAGUE
    assert find_dispute(role, item("Somebody able"), NO) == ""
    quoted = YES.model_copy(update={"quote": "Pia Skov"})
    assert find_dispute(role, item("It is Brenn."), quoted) == NOT_QUOTED
    chain = Item.of("coherence", question="Deeper?", thoughts="Dunn is 40.", answer="Dunn")
    assert find_dispute(COHERENCE.role, chain, Verdict(values={"supported": 1.0})) is None


def test_a_scorer_without_a_model_may_find_an_acceptance_impossible():
    asked = []

    def scorer(question, golds, reply):
        asked.append((question, tuple(golds), reply))
        return 0.001

    assert find_dispute(EQUIVALENCE.role, item("Not Brenn"), YES, scorer) == CONTRADICTED
    assert find_dispute(EQUIVALENCE.role, item("Not Brenn"), YES, lambda *_: 0.5) == ""
    assert asked == [("Who leads the museum?", ("Halvard Brenn", "Brenn"), "Not Brenn")]


# --- votes


def vote(judge="a", value=1.0, dispute="", repeat=0):
    values = {"equivalent": value}
    return Judgement(item="i", kind="equivalence", judge=judge, values=values, dispute=dispute, repeat=repeat)


def verdict_of(*judgements, judges=("a",), **panel):
    return combine(Panel(judges=judges, both_orders=False, **panel), EQUIVALENCE, judgements)


def test_a_disputed_acceptance_has_no_number_and_counts_apart():
    assert verdict_of(vote()) == ({"equivalent": 1.0, DISPUTED: 0.0}, {}, "")
    assert verdict_of(vote(value=0.0)).values == {"equivalent": 0.0, DISPUTED: 0.0}
    disputed = verdict_of(vote(dispute=VAGUE))
    assert disputed == ({DISPUTED: 1.0}, {"equivalent": f"disputed: {VAGUE}"}, "open")


def test_one_judge_cannot_settle_its_own_dispute_by_repeating_itself():
    repeats = [vote(dispute=VAGUE, repeat=number) for number in range(3)]
    assert verdict_of(*repeats, repeats=3).dispute == "open"
    repeats[:2] = [vote(repeat=number) for number in range(2)]  # most of its repeats have the words
    assert verdict_of(*repeats, repeats=3).dispute == ""


def test_words_in_one_order_are_enough():
    both = [vote(), vote(dispute=NOT_QUOTED).model_copy(update={"swapped": True})]
    assert combine(Panel(judges=("a",)), EQUIVALENCE, both).dispute == ""


def test_judges_of_several_names_settle_it_by_majority():
    accepted = verdict_of(vote("a", dispute=VAGUE), vote("b", dispute=VAGUE), judges=("a", "b"))
    assert (accepted.values["equivalent"], accepted.dispute) == (1.0, "panel")
    rejected = verdict_of(vote("a", dispute=VAGUE), vote("b", 0.0), vote("c", 0.0), judges=("a", "b", "c"))
    assert (rejected.values["equivalent"], rejected.dispute) == (0.0, "")


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_a_second_judge_settles_it_and_people_before_that(value):
    first, second = vote(dispute=VAGUE), vote("b", value, dispute=VAGUE if value else "")
    settled = verdict_of(first, second, second=("b",))
    assert (settled.values, settled.dispute) == ({"equivalent": value, DISPUTED: 0.0}, "second")
    person = vote(PEOPLE, 1 - value)
    settled = verdict_of(first, second, person, second=("b",))
    assert (settled.values["equivalent"], settled.dispute) == (1 - value, "people")


def test_two_second_judges_that_differ_leave_it_open_and_no_judge_is_its_own_second():
    judgements = [vote(dispute=VAGUE), vote("b", 1.0), vote("c", 0.0)]
    assert verdict_of(*judgements, second=("b", "c")).dispute == "open"
    with pytest.raises(BadSettings, match="--second"):
        Panel(judges=("a",), second=("a",))


# --- a run


def newest(folder) -> Scoring:
    return list_scorings(folder)[-1]


def counts(folder) -> dict[str, int]:
    return dict(dispute_counts(folder, newest(folder))["equivalence"])


def test_disputes_of_a_run_are_stored_counted_and_shown(elken):
    summary = scored(elken, kinds=["equivalence"])
    stored = list(read_judgements(elken, summary.scoring))
    assert {judgement.dispute for judgement in stored} == {"", VAGUE}
    by_metric = rows(elken)
    same, disputed = by_metric["same answer"], by_metric["disputed"]
    assert (same.n, same.mean, same.unscored) == (3, 100.0, 2)
    assert (disputed.n, disputed.mean) == (5, 40.0)
    (line,) = (note for note in report(elken).choices if "accepted" in note)
    assert line == "judge equivalence: 6 accepted, 0 rejected, 4 disputed"


def test_an_older_scoring_opens_and_is_disputed_by_the_replies_alone(elken):
    summary = scored(elken, kinds=["equivalence"])
    as_earlier(elken, summary.scoring)
    path = elken / FOLDER / f"{summary.scoring.id}.jsonl"
    lines = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    for line in lines:
        del line["dispute"], line["quote"]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    head = path.with_suffix(".json")
    scoring = json.loads(head.read_text("utf-8"))
    for name in ("second", "prompts"):
        del scoring["panel"][name]
    head.write_text(json.dumps(scoring), encoding="utf-8")
    assert counts(elken) == {"accepted": 6, "rejected": 0, "open": 4}
    again = scored(elken, kinds=["equivalence"])
    assert (again.scoring.id, again.judged) == (summary.scoring.id, 0), "the scoring is gone on with"


def test_a_second_judge_is_asked_about_disputes_alone_in_the_same_scoring(elken):
    first = scored(elken, kinds=["equivalence"])
    second = judge_model(yes="no")
    panel = PANEL.model_copy(update={"second": (SECOND,)})
    models = {JUDGE: ScriptedChatModel(reply=lambda prompt: "never asked"), SECOND: second}
    summary = score_run(elken, panel, ["equivalence"], models=models)
    assert (summary.scoring.id, len(list_scorings(elken))) == (first.scoring.id, 1)
    disputed = 2  # items, in both orders
    assert len(second.calls) == summary.judged == 2 * disputed and not models[JUDGE].calls
    assert counts(elken) == {"accepted": 6, "rejected": 4, "second": 4}
    assert rows(elken)["same answer"].n == 5 and rows(elken)["disputed"].mean == 0.0
    scored(elken, kinds=["equivalence"])  # without a second judge: what it said stays
    assert counts(elken)["second"] == 4


def fill(sheet, **labels):
    """Give every item of a sheet these labels."""
    with sheet.open(encoding="utf-8-sig", newline="") as file:
        items = [row | labels for row in csv.DictReader(file)]
    with sheet.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(items[0]))
        writer.writeheader()
        writer.writerows(items)


def test_people_settle_disputes_by_sheets_of_these_alone(elken, tmp_path):
    scored(elken, kinds=["equivalence"])
    disputed = open_disputes(elken, newest(elken), "equivalence")
    study = load_study("equivalence")
    sample = draw([elken], study, disputed=True)
    assert {each.group for each in sample.items} == {*disputed} and len(disputed) == 2
    folder = tmp_path / "sheets"
    key = AnnotationKey(study=study, runs=(str(elken),), seed=0, items=tuple(sample.items))
    (page,) = write_sheets(folder, key, annotators=1)
    fill(page.with_suffix(".csv"), equivalent="no")
    write_labels(folder / "labels.jsonl", read_key(folder), read_sheets(folder, read_key(folder)))
    judged = newest(elken).units
    result = settle_by_people(elken, read_labels(folder / "labels.jsonl"))
    assert (result.accepted, result.rejected, result.open, result.other) == (0, 2, 0, 0)
    assert newest(elken).units == judged + 2
    assert counts(elken)["people"] == 4 and rows(elken)["same answer"].mean == 60.0
    again = settle_by_people(elken, read_labels(folder / "labels.jsonl"))
    assert (again.rejected, again.other) == (0, 2)
    with pytest.raises(BadSettings, match="is disputed"):
        draw([elken], study, disputed=True)


def test_sheets_of_disputes_need_a_scoring_that_has_them(elken):
    with pytest.raises(BadSettings, match="--study equivalence"):
        draw([elken], load_study("equivalence"), disputed=True)
    with pytest.raises(BadSettings, match="judge run"):
        settle_by_people(elken, [])
