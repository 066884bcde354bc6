"""The viewer in a real browser: what a reader, a keyboard, a screen reader and a hostile run see."""

import functools
import re
import shutil
import threading
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from emend.evals.log.lines import EVENTS, RECORDS
from emend.evals.log.records import read_records
from emend.evals.metrics.reading_line import reading_lines
from tests.evals.show.view.browser_pages import general, go, one_of_each, open_all, opened
from tests.evals.show.view.conftest import serving
from tests.evals.show.view.sample_runs import PAYLOADS, hostile_run

pytestmark = pytest.mark.slow


def test_the_keyboard_alone_leads_from_the_overview_to_a_prompt(browser, sample_runs):
    with serving(sample_runs) as home, opened(browser) as page:
        go(page, home)

        def press_until(selector):
            for _ in range(80):
                page.keyboard.press("Tab")
                if page.evaluate("selector => document.activeElement.matches(selector)", selector):
                    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                    assert outline != "none"
                    return
            raise AssertionError(f"no {selector} was reached")

        press_until("a[href*='run/compared']")
        page.keyboard.press("Enter")
        page.wait_for_url("**/run/**")
        press_until("a[href$='cases.html']")
        page.keyboard.press("Enter")
        page.wait_for_url("**/cases.html")
        press_until("a[href*='/case/']")
        page.keyboard.press("Enter")
        page.wait_for_url("**/case/**")
        press_until("details.probe > summary")
        page.keyboard.press("Enter")
        prompt = page.locator("details.probe[open] pre.text").first
        assert prompt.is_visible() and prompt.text_content()
        page.keyboard.press("j")
        assert page.evaluate("document.activeElement.parentElement.className") == "step"


def test_the_theme_is_switched_and_kept(browser, sample_runs):
    with serving(sample_runs) as home, opened(browser, color_scheme="light") as page:
        go(page, home)
        background = "getComputedStyle(document.body).backgroundColor"
        light = page.evaluate(background)
        page.click("button[data-theme-switch]")
        dark = page.evaluate(background)
        go(page, home + "about.html")
        assert page.evaluate(background) == dark != light


def numbers(page):
    """All numbers in the text of the page."""
    return re.findall(r"\d[\d,.]*", page.text_content("main"))


def test_without_javascript_every_number_is_there(browser, sample_runs):
    with serving(sample_runs) as home, opened(browser) as page, opened(browser, java_script_enabled=False) as plain:
        for address in [*general(home), *one_of_each(page, home, "compared")]:
            go(page, address)
            plain.goto(address)
            if not address.endswith("live.html"):
                assert numbers(page) or address.endswith("compare.html")
                assert sorted(numbers(page)) == sorted(numbers(plain)), address


def test_a_case_says_how_each_answer_was_read(browser, sample_runs):
    lines = [line for record in read_records(sample_runs / "compared") for line in reading_lines(record)]
    stored = {" ".join(f"{line.score}: {line.text()}".split()) for line in lines}
    with serving(sample_runs) as home, opened(browser) as page:
        go(page, next(address for address in one_of_each(page, home, "compared") if "/case/" in address))
        open_all(page)
        shown = page.eval_on_selector_all(
            "dt", "terms => terms.filter(term => term.textContent === 'read').map(term => term.nextSibling.innerText)"
        )
        assert shown and {" ".join(text.split()) for text in shown} <= stored


def test_hostile_texts_do_nothing(browser, sample_runs, tmp_path):
    from emend.evals.show.view.export import export_file, export_folder

    hostile_run(sample_runs / "failed", tmp_path / "runs" / "hostile")
    hostile_run(sample_runs / "compared", tmp_path / "runs" / "paired")
    export_folder([tmp_path / "runs"], tmp_path / "pages", "all")
    export_file([tmp_path / "runs"], tmp_path / "pages.html", "all")
    with serving(tmp_path / "runs") as home, opened(browser) as page:
        exported = [file.as_uri() for file in sorted((tmp_path / "pages").rglob("*.html"))]
        hostile = 0
        for address in [
            *general(home),
            *one_of_each(page, home, "hostile"),
            *one_of_each(page, home, "paired"),
            *exported,
            (tmp_path / "pages.html").as_uri(),
        ]:
            go(page, address)
            open_all(page)
            check_harmless(page)
            hostile += PAYLOADS[0] in page.text_content("body")
        assert hostile > 10


def check_harmless(page):
    """Nothing ran, no element was made of a text, and nothing links to a script."""
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img, main script, main iframe, [onerror], [onload]").count() == 0
    assert page.locator("a[href^='javascript:']").count() == 0
    assert "‮" not in page.text_content("body") and " 49" not in page.title()


@contextmanager
def plain_server(folder):
    """Any web server."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *parts):
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join(20)


def test_an_export_opens_from_a_disk_and_from_a_sub_path(browser, sample_runs, tmp_path):
    from emend.evals.show.view.export import export_folder

    export_folder([sample_runs / "compared"], tmp_path / "site" / "sub" / "path", "all")
    with plain_server(tmp_path / "site") as server, opened(browser) as page:
        for home in ((tmp_path / "site/sub/path/index.html").as_uri(), server + "sub/path/index.html"):
            go(page, home)
            for link in ("run/compared", "cases.html", "/case/"):
                page.click(f"a[href*='{link}'], a[href*='{link.strip('/')}']")
                page.wait_for_load_state()
                assert page.locator("button[data-theme-switch]").is_visible()  # the script and the style are there
                assert page.evaluate("getComputedStyle(document.querySelector('main')).display") == "grid"
                assert page.evaluate("window.violations") == []
            assert "filters" in page.text_content(".note")


def test_one_file_holds_all_pages(browser, sample_runs, tmp_path):
    from emend.evals.show.view.export import export_file

    file = tmp_path / "runs.html"
    export_file([sample_runs / "compared"], file, "all")
    with opened(browser) as page:
        go(page, file.as_uri())
        assert page.locator("h1:visible").all_text_contents() == ["Runs"]
        page.click(".page:visible tbody a")
        page.click(".page:visible .tabs a:has-text('Cases')")
        page.click(".page:visible .list a >> nth=0")
        page.click(".page:visible td a >> nth=0")  # a verdict leads to its trace, and opens it
        assert page.locator("details.probe[open] pre.text").first.is_visible()
        assert page.locator("h1:visible").count() == 1


def test_progress_grows_while_records_are_written(browser, sample_runs, tmp_path):
    run = shutil.copytree(sample_runs / "compared", tmp_path / "run")
    lines = {name: (run / name).read_text("utf-8").splitlines(keepends=True) for name in (RECORDS, EVENTS)}
    (run / RECORDS).write_text("".join(lines[RECORDS][:1]), encoding="utf-8")
    with serving(tmp_path) as home, opened(browser) as page:
        go(page, home)
        page.click("tbody a")
        page.click(".tabs a[href$='live.html']")
        shown = page.locator("[data-live=finished]").first
        before = int(shown.text_content())
        (run / RECORDS).write_text("".join(lines[RECORDS]), encoding="utf-8")
        page.wait_for_function(
            "before => Number(document.querySelector('[data-live=finished]').textContent) > before", arg=before
        )
        assert Path(run).is_dir()
