"""The viewer in a real browser: what a reader, a keyboard, a screen reader and a hostile run see."""

import functools
import json
import re
import shutil
import threading
import time
from contextlib import contextmanager
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from emend.evals.log.lines import EVENTS, RECORDS
from tests.evals.view.conftest import serving
from tests.evals.view.sample_runs import BENCHMARKS, PAYLOADS, SPECIAL, hostile_run

pytestmark = pytest.mark.slow

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
OBSERVERS = """
window.violations = [];
window.moved = 0;
new PerformanceObserver((list) => list.getEntries().forEach((entry) => { window.moved += entry.value; }))
    .observe({ type: "layout-shift", buffered: true });
addEventListener("securitypolicyviolation", (event) => violations.push(event.violatedDirective));
"""


@contextmanager
def opened(browser, **options):
    """A page that notes all that it says and asks for, and must have said nothing in the end."""
    context = browser.new_context(**options)
    page, said, asked = context.new_page(), [], []
    if options.get("java_script_enabled", True):
        page.add_init_script(OBSERVERS)
    page.on("console", lambda message: said.append(f"{page.url}: {message.text}"))
    page.on("pageerror", lambda error: said.append(f"{page.url}: {error}"))
    page.on("dialog", lambda dialog: said.append(f"{page.url}: dialog {dialog.message}"))
    page.on("request", lambda request: asked.append(request.url))
    try:
        yield page
    finally:
        context.close()
    strangers = {url for url in asked if urlsplit(url).scheme != "file" and urlsplit(url).hostname != "127.0.0.1"}
    assert not said and not strangers


def go(page, address):
    """Open a page, and again while it waits for numbers."""
    for _ in range(60):
        response = page.goto(address)
        if "being computed" not in page.text_content("main"):
            break
        time.sleep(0.5)
    assert response is None or response.status == 200, address
    assert page.evaluate("window.violations || []") == []
    assert page.evaluate("window.moved || 0") < 0.02, address  # nothing moves while a page is loaded


def links(page, pattern=""):
    """Addresses of the page's links that fit."""
    found = page.eval_on_selector_all("a[href]", "links => links.map(link => link.href.split('#')[0])")
    return list(dict.fromkeys(link for link in found if re.search(pattern, link)))


def general(home):
    """Addresses of the pages that are of no run."""
    return [home, home + "about.html", home + "compare.html"]


def one_of_each(page, home, name):
    """Addresses of a page of each kind of a run; of a benchmark's run, its results and a case."""
    go(page, home)
    run = links(page, rf"/run/{name}-\w+/index\.html")[0]
    folder = re.escape(run.removesuffix("index.html"))
    go(page, run)
    pages = [run, *links(page, rf"{folder}\w+\.html$"), *links(page, r"/compare/[^/]+\.html")[:1]]
    if name in BENCHMARKS:
        pages = [run, run.replace("index", "cases")]
    for address in pages[1:]:
        go(page, address)
        pages += links(page, r"/\d+-\d+\.html")[:1]
    return list(dict.fromkeys(pages))


def open_all(page):
    page.eval_on_selector_all("details", "parts => parts.forEach(part => { part.open = true; })")


def check_page(page, axe, address, schemes):
    """Fits narrow and wide screens, and axe finds nothing, in one theme each."""
    go(page, address)
    open_all(page)
    for scheme, width in zip(schemes, (320, 1280), strict=True):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (address, width)
        violations = axe.run(page, options={"runOnly": TAGS}).response["violations"]
        assert not violations, (address, width, json.dumps(violations, indent=1)[:3000])


@pytest.mark.parametrize("name", ["", *SPECIAL, *BENCHMARKS])
def test_every_page_is_accessible_quiet_and_fits(browser, sample_runs, name):
    from axe_playwright_python.sync_playwright import Axe

    with serving(sample_runs) as home, opened(browser) as page:
        pages = one_of_each(page, home, name) if name else general(home)
        assert len(pages) >= (3 if name not in SPECIAL else 6)
        for number, address in enumerate(pages):
            check_page(page, Axe(), address, ("light", "dark") if number % 2 else ("dark", "light"))


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
                assert len(numbers(page)) > 2 or address.endswith("compare.html")
                assert sorted(numbers(page)) == sorted(numbers(plain)), address


def test_hostile_texts_do_nothing(browser, sample_runs, tmp_path):
    from emend.evals.view.rendering.export import export_file, export_folder

    hostile_run(sample_runs / "failed", tmp_path / "runs" / "hostile")
    export_folder([tmp_path / "runs"], tmp_path / "pages", "all")
    export_file([tmp_path / "runs"], tmp_path / "pages.html", "all")
    with serving(tmp_path / "runs") as home, opened(browser) as page:
        exported = [file.as_uri() for file in sorted((tmp_path / "pages").rglob("*.html"))]
        hostile = 0
        for address in [
            *general(home),
            *one_of_each(page, home, "hostile"),
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
    from emend.evals.view.rendering.export import export_folder

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
    from emend.evals.view.rendering.export import export_file

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
