"""Blind sheets are drawn, hold no markup, formula or editor, and are read back into agreement and a judge's labels."""

import base64
import csv
import hashlib
import json
import os
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import cohen_kappa_score

from emend.evals.judging.annotation import (
    AnnotationKey,
    read_key,
    read_sheets,
    results_of,
    write_adjudication,
    write_labels,
    write_sheets,
)
from emend.evals.judging.calibration.labels import read_labels
from emend.evals.judging.study import AnnotationItem, draw, load_study, shipped_studies
from emend.memory.errors import BadData, BadSettings, RunRefused
from tests.evals.command_line import emend
from tests.evals.made import case_line, record, write_run

HOSTILE = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\u2028\x1b[31m"
FORMULA = '=HYPERLINK("http://x","y")'


def items(count: int, study: str, **more: Any) -> list[AnnotationItem]:
    parts: dict[str, tuple[str, ...]] = {"question": (HOSTILE,), "answer": (FORMULA,)}
    return [
        AnnotationItem(id=f"{n:016x}", group=f"{n:016x}", case=str(n), stratum="rag", parts=parts)
        .model_copy(update=more) for n in range(count)
    ]  # fmt: skip


def exported(folder: Path, study: str = "coherence", count: int = 6, **more: Any) -> AnnotationKey:
    key = AnnotationKey(study=load_study(study), runs=(), seed=0, items=tuple(items(count, study, **more)))
    write_sheets(folder, key)
    return key


def fill(folder: Path, annotator: str, labels: dict[str, dict[str, str]], **format: Any) -> None:
    """Fill in a table as a spreadsheet would."""
    path = folder / f"{annotator}.csv"
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = list(csv.DictReader(file))
    with path.open("w", encoding=format.pop("encoding", "utf-8"), newline="") as file:
        writer = csv.DictWriter(file, rows[0], **format)
        writer.writeheader()
        writer.writerows(row | labels.get(row["item"], {}) for row in rows)


def verdicts(key: AnnotationKey, labels: str, question: str = "supported") -> dict[str, dict[str, str]]:
    names = {"y": "yes", "n": "no", "-": ""}
    return {item.id: {question: names.get(label, label)} for item, label in zip(key.items, labels, strict=True)}


def test_a_sample_has_as_many_of_each_stratum_and_is_the_same_again(elken: Path) -> None:
    study = load_study("elken").model_copy(update={"size": 4, "strata": ("editor",)})
    sample = draw([elken], study)
    assert {drawn for _, drawn in sample.strata.values()} <= {1, 2} and len(sample.items) <= 4
    assert Counter(item.stratum for item in sample.items) == {name: n for name, (_, n) in sample.strata.items() if n}
    assert draw([elken], study) == sample
    assert {item.stratum for item in draw([elken], study, editors=["rag"]).items} == {"rag"}
    with pytest.raises(BadSettings, match="--by edtor: the records have .*editor"):
        draw([elken], study.model_copy(update={"strata": ("edtor",)}))
    with pytest.raises(BadSettings, match="no edit failed in setting extract: run AKEW"):
        draw([elken], load_study("akew"))


def test_sheets_are_blind_and_hostile_texts_stay_texts(tmp_path: Path) -> None:
    key = exported(tmp_path / "sheets", stratum="secret-editor")
    page, table = ((tmp_path / "sheets" / f"annotator-1.{end}").read_text("utf-8-sig") for end in ("html", "csv"))
    assert "secret-editor" not in page + table and "secret-editor" in (tmp_path / "sheets" / "key.json").read_text()
    assert page.count("</script>") == 2 and "onerror" in page and "<img" not in page and "\x1b" not in page + table
    script = page.rpartition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert (
        f"script-src 'sha256-{digest}'\"" in page
        and "{{" not in page
        and "http" not in re.sub("http-equiv|http://x", "", page)
    )
    first = next(csv.DictReader(table.splitlines()))
    assert first["answer"] == f"'{FORMULA}"
    tables = ((tmp_path / "sheets" / f"annotator-{n}.csv").read_text("utf-8-sig") for n in (1, 2))
    orders = [[line[:16] for line in text.splitlines()[1:]] for text in tables]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(item.id for item in key.items)
    with pytest.raises(RunRefused, match="has sheets already"):
        write_sheets(tmp_path / "sheets", key)


@pytest.mark.parametrize("how", [{"delimiter": ";", "encoding": "cp1252"}, {"delimiter": "\t", "encoding": "utf-16"}])
def test_sheets_of_spreadsheets_are_read_and_agreement_is_that_of_scikit_learn(tmp_path: Path, how: Any) -> None:
    key = exported(tmp_path / "s", count=8, parts={"answer": ("plain",)})
    first, second = "yynnyynn", "yynnyny-"
    fill(tmp_path / "s", "annotator-1", verdicts(key, first), **how)
    fill(tmp_path / "s", "annotator-2", verdicts(key, second), **how)
    sheets = read_sheets(tmp_path / "s", key)
    results = results_of(key, sheets)
    (pair,) = results.pairs
    assert (
        pair.n == 7 and pair.kappa and pair.kappa.value == pytest.approx(cohen_kappa_score([*first[:7]], [*second[:7]]))
    )
    assert pair.kappa.low is not None and pair.alpha and pair.alpha.value and pair.alpha.low is not None
    assert {each.item for each in results.disagreements} == {key.items[5].id, key.items[6].id}
    assert [(share.label, share.value.mean, share.value.n, share.value.unscored) for share in results.shares] == [
        ("yes", 0.5, 6, 2), ("no", 0.5, 6, 2),
    ]  # fmt: skip


def test_disagreements_are_settled_on_a_sheet_of_their_own(tmp_path: Path) -> None:
    key = exported(tmp_path / "s", count=4)
    fill(tmp_path / "s", "annotator-1", verdicts(key, "yynn"))
    fill(tmp_path / "s", "annotator-2", verdicts(key, "ynnn"))
    sheets = read_sheets(tmp_path / "s", key)
    page = write_adjudication(tmp_path / "s", key, sheets, results_of(key, sheets))
    assert page and "annotator-2: supported no" in page.read_text()
    fill(tmp_path / "s", "adjudicator", {key.items[1].id: {"supported": "no"}})
    settled = read_sheets(tmp_path / "s", key)
    assert [share.value.unscored for share in results_of(key, settled).shares] == [0, 0]
    assert write_adjudication(tmp_path / "s", key, settled, results_of(key, settled)) is None, "it is filled in"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("supported", "suported", "line 1: no column 'supported'"),
        (",yes,", ",maybe,", "line 2, column 'supported': 'maybe'"),
        ("0000000000000003", "0000000000000009", "item '0000000000000009' is unknown"),
        ("0000000000000003", "0000000000000002", "item '0000000000000002' is unknown or occurs twice"),
        (",yes,", ",,", "annotator-1.csv has no label: fill it in"),
    ],
)
def test_a_sheet_that_cannot_be_read_says_where(tmp_path: Path, old: str, new: str, message: str) -> None:
    key = exported(tmp_path / "s", parts={"answer": ("plain",)})
    for annotator in ("annotator-1", "annotator-2"):
        fill(tmp_path / "s", annotator, verdicts(key, "yyyyyy"))
    path = tmp_path / "s" / "annotator-1.csv"
    path.write_text(path.read_text().replace(old, new))
    with pytest.raises(BadData, match=re.escape(message)):
        read_sheets(tmp_path / "s", key)


def test_labels_go_to_calibration_and_sentences_become_shares(tmp_path: Path) -> None:
    judged = {"thoughts": ("A. B.",), "reference": ("r", "s")}
    key = exported(tmp_path / "s", "recoe-recall", 4, judged=judged, group="chain", case="7")
    labels = ("consistent", "Consistent", "unrelated", "inconsistent")
    for annotator in ("annotator-1", "annotator-2"):
        fill(tmp_path / "s", annotator, {item.id: {"recall": x} for item, x in zip(key.items, labels, strict=True)})
    assert write_labels(tmp_path / "labels.jsonl", key, read_sheets(tmp_path / "s", key)) == 1
    (row,) = read_labels(tmp_path / "labels.jsonl")
    assert (row.kind, row.case, row.label, row.item.parts) == ("recall", "7", 0.5, judged)


def test_shares_of_errors_leave_out_what_is_right(tmp_path: Path) -> None:
    key = exported(tmp_path / "s", "docter", 4)
    labels = {item.id: {"error": x} for item, x in zip(key.items, ("right", "AT", "IS", "IS"), strict=True)}
    for annotator in ("annotator-1", "annotator-2"):
        fill(tmp_path / "s", annotator, labels)
    shares = results_of(key, read_sheets(tmp_path / "s", key)).shares
    assert {share.label: (share.value.mean, share.value.n) for share in shares} == {
        "right": (0.25, 4), "AT": (1 / 3, 3), "IS": (2 / 3, 3), "IR": (0.0, 3),
    }  # fmt: skip


def test_studies_are_data_and_a_judge_is_one(tmp_path: Path) -> None:
    assert {*shipped_studies()} == {
        "elken",
        "recoe-coherence",
        "recoe-recall",
        "akew",
        "docter",
        "build",
        "build-docter",
    }
    assert load_study("equivalence").questions[0].options.keys() == {"yes", "no"}
    own = tmp_path / "own.toml"
    text = '[[study]]\nname="a"\ntitle="t"\nsource="judge"\njudge="supports"\nsize=3\ninstructions="i"\n' \
           'questions=[{name="q", question="?", options={1="", 2=""}}]\n'  # fmt: skip
    own.write_text(text)
    assert load_study(str(own)).questions[0].ordered
    own.write_text(text.replace("size=3", 'size="x"'))
    with pytest.raises(BadData, match="own.toml', field 'size'"):
        load_study(str(own))
    with pytest.raises(BadSettings, match="no study 'elkn': did you mean 'elken'"):
        load_study("elkn")


def test_the_commands_take_a_run_to_labels(recoe: Path, tmp_path: Path, capfd: Any) -> None:
    out = tmp_path / "sheets"
    assert emend("judge", "annotate", str(recoe), "--study", "recoe-coherence", "--out", str(out)) == 0
    assert "key.json" in capfd.readouterr().out
    key = read_key(out)
    for annotator in ("annotator-1", "annotator-2"):
        fill(out, annotator, verdicts(key, "y" * len(key.items)))
    assert emend("judge", "agreement", str(out), "--json") == 0
    printed = json.loads(capfd.readouterr().out)
    assert printed["rows"][0]["raw"]["mean"] == 1.0 and printed["disagreements"] == []
    assert emend("judge", "agreement", str(out)) == 0
    assert "gave one label only" in capfd.readouterr().out
    assert [row.label for row in read_labels(out / "labels.jsonl")] == [1.0] * len(key.items)


@pytest.mark.slow
def test_the_page_works_in_a_browser_without_a_network_and_runs_nothing_hostile(tmp_path: Path) -> None:
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    browsers = [path for path in ("/usr/bin/chromium", "/usr/bin/google-chrome") if Path(path).exists()]
    key = exported(tmp_path / "s", count=3)
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=next(iter(browsers), None), args=["--no-sandbox"])
        page, requests, dialogs = browser.new_page(), [], []
        page.on("request", lambda request: requests.append(request.url))

        def accept(dialog: Any) -> None:
            dialogs.append(dialog.type)
            dialog.accept()

        page.on("dialog", accept)
        page.goto((tmp_path / "s" / "annotator-1.html").as_uri())
        for choice in page.query_selector_all("input[value=yes]"):
            choice.check()
        page.query_selector("textarea").fill(FORMULA)
        page.reload()
        assert page.inner_text("#count") == "3 of 3 done", "labels are kept when the page is closed"
        with page.expect_download() as download:
            page.click("#save")
        download.value.save_as(tmp_path / "s" / "annotator-1.csv")
        browser.close()
    assert {*dialogs} <= {"beforeunload"} and all(url.startswith(("file:", "blob:")) for url in requests)
    fill(tmp_path / "s", "annotator-2", verdicts(key, "yyn"))
    sheet, _ = read_sheets(tmp_path / "s", key)
    assert len(sheet.labels) == 3 and [*sheet.comments.values()] == [FORMULA]
    assert f"'{FORMULA[:10]}" in (tmp_path / "s" / "annotator-1.csv").read_text("utf-8")


def test_a_study_that_is_deep_or_no_file_is_refused(tmp_path):
    (tmp_path / "deep.toml").write_text("x = " + "[" * 9_000)
    os.mkfifo(tmp_path / "fifo.toml")
    for name in ("deep", "fifo"):
        with pytest.raises(BadData, match=rf"{name}\.toml"):
            load_study(str(tmp_path / f"{name}.toml"))


def test_items_of_failed_edits_are_those_of_edits_by_extracted_triplets(tmp_path: Path) -> None:
    told = [
        record(f"{setting}-{editor}", editor, setting=setting, values={"em": em}, model="m", answer="x", rival="y")
        for setting, editor, em in (
            ("extract", "rag", 0.0), ("extract", "rag2", 1.0), ("extract", "unedited", 0.0), ("struct", "rag", 0.0),
        )
    ]  # fmt: skip
    edits = [{"id": "e1", "form": "triplet", "text": "A is B.", "subject": "A", "target_new": "B"}]
    cases = [case_line(each.case, each.setting, number, edits=edits) for number, each in enumerate(told, 1)]
    sample = draw([write_run(tmp_path / "run", told, "akew", cases=cases)], load_study("akew"))
    assert [item.case for item in sample.items] == ["extract-rag"]
