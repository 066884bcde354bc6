"""Take the pictures of docs/how-to/view.md: runs of the embedded model, a judged one, and every page of the viewer.

    python -m scripts.viewer.screenshots docs/how-to/view [--runs FOLDER]

The runs are made in the folder of `--runs` where they are not there yet, which takes some minutes; Chromium is needed.
"""

import argparse
import io
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import chdir, contextmanager
from pathlib import Path
from typing import Any

import emend
from emend.evals.judging.panel import Panel
from emend.evals.judging.score_run import score_run
from emend.evals.show.view.server import listen, make_server
from emend.evals.show.view.site import Site

WIDTH, HEIGHT = 1280, 860
DEMO, MEMORY, SEQUENCE, JUDGED = "demo", "memory-editors", "sequence", "judged"
SHOTS = {
    "runs": ("index.html", ""),
    "demo": ("run/{demo}/index.html", ""),
    "run": ("run/{memory}/index.html", ""),
    "sequence": ("run/{sequence}/index.html", "#sequence"),
    "cases": ("run/{memory}/cases.html?where=rag+right%2C+mello+wrong", ""),
    "case": ("run/{memory}/case/0-1.html", ""),
    "trace": ("run/{memory}/case/0-1.html", "details.probe:has(b:text-is('crag'))"),
    "compare": ("compare/{memory}.1~{memory}.3.html", ""),
    "beside": ("compare/{memory}.1~{memory}.3/0-1.html", ""),
    "retrieval": ("run/{memory}/retrieval.html", ""),
    "judges": ("run/{judged}/judges.html", ""),
    "errors": ("run/{judged}/errors.html", ""),
    "live": ("run/{memory}/live.html", ""),
}
"""By picture: the page, and what is opened and scrolled to."""
DARK, NARROW = ("case",), ("run",)
"""Pages that are also shown in the dark theme, and at a phone's width."""


def make_runs(home: Path) -> None:
    """Make the runs that are not there."""
    if not (home / DEMO).exists():
        subprocess.run([sys.executable, "-m", "emend.evals.cli.main", "demo", "--out", str(home / DEMO)], check=True)
    if not (home / MEMORY).exists():
        editors = ["unedited", "rag", "crag", "mello", "ike"]
        emend.run("tinyworld", editors, "tiny", settings=["document"], limit=12, out=home / MEMORY, progress=False)
    if not (home / SEQUENCE).exists():
        more: dict[str, Any] = {"mode": "sequential", "reevaluate_at": "2,4,6,end"}
        emend.run("tinyworld", ["rome", "ft"], "tiny", limit=8, out=home / SEQUENCE, progress=False, **more)
    if not (home / JUDGED).exists():
        from tests.evals.judged_runs import elken_run, judge_model

        judges = {"openai:first": judge_model(5), "openai:second": judge_model(3, "no")}
        elken_run(home / JUDGED)
        score_run(home / JUDGED, Panel(judges=tuple(judges)), models=judges)


@contextmanager
def served(home: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Address of a viewer, and the ids of its runs by name."""
    with chdir(home), Site([Path()]) as site, listen("127.0.0.1", 0) as listener:
        server = make_server(site)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        ids = {run.name: run.id for run in site.runs()}
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/", ids
        server.should_exit = True
        thread.join(20)


def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--runs", type=Path)
    given = parser.parse_args()
    out: Path = given.out.resolve()
    home: Path = given.runs or Path(tempfile.mkdtemp(prefix="emend-view-"))
    make_runs(home)
    out.mkdir(parents=True, exist_ok=True)
    with served(home) as (address, ids):
        names = {"demo": DEMO, "memory": MEMORY, "sequence": SEQUENCE, "judged": JUDGED}
        take(address, {part: ids[name] for part, name in names.items()}, out)
    sys.stdout.write(f"{sum(file.stat().st_size for file in out.iterdir()) / 1000:,.0f} kB in {out}\n")


def take(address: str, ids: dict[str, str], out: Path) -> None:
    """Take the pictures of a served viewer."""
    from playwright.sync_api import sync_playwright

    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for theme, width, names in (("light", WIDTH, SHOTS), ("dark", WIDTH, DARK), ("light", 360, NARROW)):
            page = browser.new_page(viewport={"width": width, "height": HEIGHT}, reduced_motion="reduce")
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            for name in names:
                picture = _shot(page, address, ids, *SHOTS[name])
                ending = {("light", WIDTH): "", ("dark", WIDTH): "-dark"}.get((theme, width), "-narrow")
                _save(picture, out / f"{name}{ending}.webp")
            page.close()
        browser.close()


def _shot(page: Any, address: str, ids: dict[str, str], path: str, part: str) -> bytes:
    page.goto(address + path.format(**ids))
    page.get_by_text("being computed").wait_for(state="detached", timeout=120_000)
    if part:
        found = page.locator(part).first
        found.evaluate("part => { if (part.tagName === 'DETAILS') part.open = true; part.scrollIntoView(); }")
    return bytes(page.screenshot())


def _save(picture: bytes, file: Path) -> None:
    from PIL import Image

    Image.open(io.BytesIO(picture)).save(file, "WEBP", quality=55, method=6)


if __name__ == "__main__":
    main()
