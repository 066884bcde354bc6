"""Pages of the viewer in a real browser, and which there are."""

import re
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

from tests.evals.show.view.sample_runs import BENCHMARKS

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


def open_all(page, traces=10**6):
    """Open all details, and the first traces."""
    page.eval_on_selector_all("details", "parts => parts.forEach(part => { part.open = true; })")
    script = "(parts, traces) => parts.slice(traces).forEach(part => { part.open = false; })"
    page.eval_on_selector_all("details.probe, details.question", script, traces)
