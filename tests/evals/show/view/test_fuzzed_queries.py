"""Odd queries over sound, hostile and damaged runs: every page is answered, or says with 4xx what is wrong."""

import random
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from emend.evals.log.lines import CASES, ERRORS, EVENTS, RECORDS
from emend.evals.show.view.server import make_app
from emend.evals.show.view.site import Site
from tests.evals.show.view.sample_runs import hostile_run

COUNT, SEED = 1000, 7
PAGES = ("index", "cases", "retrieval", "judges", "errors", "live")
NAMES = ("editor", "kind", "tag", "verdict", "text", "where", "sort", "after", "errors", "cases", "from", "side", "x")
VALUES = (
    "", "a", "'", '"><b>', "\x00", "\x1b[31m", "\n", "\u202e", "\u0661\u0662", "\xb2", "\ud800", "-1", "0", "1",
    "1e999", "nan", "nan:0-1", "inf:0-1", "1:0-1", "1:1-1-1", "1:\xb2-1", "1:0-" + "9" * 20, "9" * 30, ":", "../..",
    "%00", "(?", "=", "a=", "=b", "right", "wrong", "unscored", "rag right", "rag right, rag wrong", "rag right,", "[",
    "efficacy", "number", "all", "flipped", "{{ 7*7 }}", "x" * 600,
)  # fmt: skip
PATHS = (
    "/",
    "/index.html",
    "/about.html",
    "/compare.html",
    "/%00",
    "/run//index.html",
    "/run/../x",
    "/static/none.css",
)

pytestmark = [pytest.mark.slow, pytest.mark.usefixtures("own_cache")]


@pytest.fixture
def runs(smooth: Path, rough: Path, tmp_path: Path) -> Path:
    """A sound run, a hostile one, and some of which one file is damaged or missing."""
    home = tmp_path / "runs"
    shutil.copytree(smooth, home / "sound")
    hostile_run(rough, home / "hostile")
    for name in (RECORDS, CASES, EVENTS, ERRORS):
        path = Path(shutil.copytree(rough, home / f"damaged {name}")) / name
        content = path.read_bytes()
        path.write_bytes(content[:30] + b"\x00}{" + content[60:])
    (Path(shutil.copytree(rough, home / "cut")) / RECORDS).unlink()
    return home


def _addresses(ids: list[str]) -> Iterator[str]:
    draw = random.Random(SEED)

    def side() -> str:
        return f"{draw.choice(ids)}.{draw.choice((0, 1, 2, 99, 99999, 'x', '%C2%B2'))}"

    for _ in range(COUNT):
        run = draw.choice([*ids, "none"])
        place = f"{draw.choice((0, 1, 9999, -1, '%C2%B2'))}-{draw.choice((0, 1, 2, 3, 999999999))}"
        path = draw.choice(
            [f"/run/{run}/{draw.choice(PAGES)}.html"] * 4
            + [f"/run/{run}/case/{place}.html", f"/run/{run}/live.json", f"/compare/{side()}~{side()}.html"]
            + [f"/compare/{side()}~{side()}/{place}.html", f"/compare.html?side={side()}&side={side()}"]
            + [draw.choice(PATHS)]
        )
        query = "&".join(
            f"{draw.choice(NAMES)}={quote(draw.choice(VALUES), errors='surrogatepass')}"
            for _ in range(draw.randint(0, 5))
        )
        yield f"{path}{'&' if '?' in path else '?'}{query}"


def test_no_odd_query_ends_in_an_error_of_the_server(runs: Path) -> None:
    with Site([runs]) as site:
        client = TestClient(make_app(site), base_url="http://127.0.0.1", follow_redirects=False)
        responses = {path: client.get(path) for path in _addresses(list(site.library.scan.runs()))}
    statuses = Counter(response.status_code for response in responses.values())
    assert set(statuses) <= {200, 303, 404, 414, 422} and min(statuses[200], statuses[404]) > 100, statuses
    problems = [response.text for response in responses.values() if response.status_code == 422]
    assert problems and all(any(name in text for name in (RECORDS, CASES, EVENTS)) for text in problems)
