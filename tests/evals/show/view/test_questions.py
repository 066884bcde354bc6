"""Ten questions of a reader are answered by clicks alone, each in at most five, from the list of runs on."""

import pytest

from tests.evals.show.view.conftest import serving

pytestmark = pytest.mark.slow

CASES = ".tabs a:has-text('Cases')"
QUESTIONS = {
    "which editor is best on paraphrase, and is that certain?": (
        ["tbody a:text-is('compared')", "thead button:has-text('paraphrase')", "a.button:text-is('rag and mello')"],
        "tr:has(th:has-text('paraphrase')) >> text=/decided|is better/",
    ),
    "where is RAG right and MeLLo wrong?": (
        [
            "tbody a:text-is('compared')",
            "a.button:text-is('rag and mello')",
            "tr:has(td:nth-child(5) .right):has(td:nth-child(6) .wrong) a",
        ],
        "details[open].question:has(.beside > div:nth-child(1) .right):has(.beside > div:nth-child(2) .wrong) pre.text",
    ),
    "what did CRAG drop, and why?": (
        ["tbody a:text-is('compared')", CASES, "#cases-list > li > .row > a", "tbody td:nth-child(4) a"],
        "details[open].probe .hits li.dropped .why:has-text('relevance')",
    ),
    "what did the judge say of this answer?": (
        ["tbody a:text-is('judged')", ".tabs a:has-text('Judges')", ".list a"],
        "details[open].probe:has-text('Judged: ') .said",
    ),
    "which probes have no score, and why?": (
        ["tbody a:text-is('failed')", ".facts.big a", "td.num a"],
        ".verdict.open, .list:has-text('unscored')",
    ),
    "what did this run cost?": (["tbody a:text-is('compared')"], "dl.pairs:has-text('tokens')"),
    "what was the prompt of a wrong answer?": (
        ["tbody a:text-is('compared')", CASES, ".example:has(.wrong) a"],
        "details[open].probe:has(.wrong) pre.text",
    ),
    "does an editor forget what it learned first?": (
        ["tbody a:text-is('sequential')", "summary:has-text('Data of these curves')"],
        "figure:has-text('edits so far') .line, td:text('4')",
    ),
    "what came first where the right edit did not?": (
        ["tbody a:text-is('mquake')", ".tabs a:has-text('Retrieval')"],
        "dt:text-is('found') + dd .hits li",
    ),
    "what was sent before the unit failed?": (
        ["tbody a:text-is('failed')", ".tabs a:has-text('Errors')", "summary:has-text('before the failure')"],
        "details[open] .steps pre.text",
    ),
}


@pytest.fixture(scope="module")
def page(browser, sample_runs):
    with serving(sample_runs) as home:
        page = browser.new_page(reduced_motion="reduce", base_url=home)
        page.set_default_timeout(60_000)
        yield page
        page.close()


@pytest.mark.parametrize("question", QUESTIONS)
def test_a_question_is_answered_by_clicks_alone(page, question):
    clicks, answer = QUESTIONS[question]
    assert len(clicks) <= 5
    page.goto("/")
    for click in clicks:
        page.locator(click).first.click()
        page.get_by_text("being computed").wait_for(state="detached")
    page.locator(answer).first.wait_for()  # until it is visible
