"""The viewer's server answers this machine alone, with GET and by ids, and with the headers that keep scripts out."""

import json
import re
import shutil
import sys
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from emend.evals.cli.viewer import require_view
from emend.evals.show.view.environment import STATIC, TEMPLATES, environment
from emend.evals.show.view.guard import HEADERS, is_loopback
from emend.evals.show.view.library import Library
from emend.evals.show.view.server import make_app
from emend.evals.show.view.site import Site
from emend.memory.errors import MissingExtra
from tests.evals.command_line import emend

TOKEN = "a token of more than sixteen letters"
pytestmark = pytest.mark.usefixtures("own_cache")


@pytest.fixture
def runs(smooth, tmp_path):
    shutil.copytree(smooth, tmp_path / "runs" / "first")
    return tmp_path / "runs"


@pytest.fixture
def client(runs):
    with Site([runs]) as site:
        yield TestClient(make_app(site), base_url="http://127.0.0.1:7710", follow_redirects=False)


def run_id(client):
    (run,) = set(re.findall(r"run/([a-z0-9-]+)/index.html", client.get("/").text))
    return run


@pytest.mark.slow
def test_every_response_has_the_headers(client):
    run = run_id(client)
    paths = ["/", "/index.html", f"/run/{run}/index.html", f"/run/{run}/cases.html", f"/run/{run}/live.json"]
    paths += ["/static/view.css", "/static/none.css", "/nothing", "/run/none/index.html", "/compare.html"]
    paths += [
        f"/compare.html?side={run}.0&side={run}.1",
        f"/run/{run}/cases.html?text={'a' * 5000}",
        "/?" + "&a=1" * 99,
    ]
    responses = [client.get(path) for path in paths]
    responses += [client.post("/"), client.get("/", headers={"host": "evil.test"})]
    statuses = [response.status_code for response in responses]
    assert statuses == [200, 200, 200, 200, 200, 200, 404, 404, 404, 200, 303, 414, 414, 405, 400]
    for response in responses:
        assert {name: response.headers[name] for name in HEADERS if name != "cache-control"} == {
            name: value for name, value in HEADERS.items() if name != "cache-control"
        }
    assert "unsafe" not in HEADERS["content-security-policy"]


@pytest.mark.parametrize("host", ["evil.test", "evil.test:7710", "127.0.0.1.evil.test", "10.0.0.1", "", "[::2]"])
def test_another_host_is_refused(client, host):
    assert client.get("/", headers={"host": host}).status_code == 400


@pytest.mark.parametrize(
    "host",
    [
        "[::1]evil.test",
        "[::1]:80@evil",
        "[::1]:",
        "[::1",
        "[127.0.0.1]",
        "::1%evil",
        "[::1%evil]",
        "localhost:evil.test",
        "localhost:80:80",
        "localhost:65536",
        "localhost:\xb2",
        "localhost@evil.test",
        "127.0.0.1:80/evil.test",
        "127.0.0.1, evil.test",
    ],
)
def test_a_host_with_anything_but_a_port_behind_it_is_refused(client, host):
    assert client.get("/", headers={"host": host.encode("latin-1")}).status_code == 400


@pytest.mark.parametrize("host", ["localhost:7710", "127.0.0.1", "[::1]:7710", "127.1.2.3:1", "LOCALHOST:65535", "::1"])
def test_this_machine_is_answered(client, host):
    assert client.get("/", headers={"host": host}).status_code == 200 and is_loopback(host)


@pytest.mark.parametrize(
    "path",
    [
        "/run/../../etc/passwd",
        "/run/%2e%2e/%2e%2e/index.html",
        "/run/{id}/%2e%2e%2findex.html",
        "/run/{id}%00/index.html",
        "/run/{id}/index.html%00",
        "/static/../server.py",
        "/static/%2e%2e%2fserver.py",
        "/static/..%5cserver.py",
        "/static/view.css%00",
        "/%2fetc/passwd",
        "/run/{id}/case/0-1.html/../../index.html%0a",
        "/run/{id}/records.jsonl",
        "/" + "a" * 5000,
    ],
)
def test_no_path_leads_out(client, path):
    response = client.get(path.format(id=run_id(client)))
    assert response.status_code == 404 and "root:" not in response.text and "import" not in response.text


def test_links_out_of_the_folders_are_not_followed(runs, smooth, tmp_path):
    (runs / "link").symlink_to(smooth, target_is_directory=True)
    (runs / "nowhere").symlink_to("x" * 300)
    shutil.copytree(smooth, tmp_path / "copy")
    linked = runs / "linked file"
    linked.mkdir()
    (linked / "manifest.json").symlink_to(tmp_path / "copy" / "manifest.json")
    records = runs / "linked records"
    shutil.copytree(smooth, records)
    (records / "records.jsonl").unlink()
    (records / "records.jsonl").symlink_to(tmp_path / "copy" / "records.jsonl")
    with Site([runs], static=True) as site:
        assert sorted(place.name for place in site.library.scan.runs().values()) == ["first", "linked records"]
        run = next(place.id for place in site.library.scan.runs().values() if place.name == "linked records")
        page = site.page(f"run/{run}/cases.html")
        assert page.status == 422 and "symbolic link" in page.data.text


def test_with_a_token_any_host_is_answered_and_nobody_without_it(runs):
    with Site([runs]) as site:
        client = TestClient(make_app(site, TOKEN), base_url="http://viewer.test", follow_redirects=False)
        assert client.get("/").status_code == 403 and client.get("/?token=wrong").status_code == 403
        assert client.get("/static/view.css").status_code == 403
        response = client.get("/", params={"token": TOKEN})
        assert response.status_code == 303 and TOKEN not in response.headers["location"]
        assert "HttpOnly" in response.headers["set-cookie"] and "SameSite=strict" in response.headers["set-cookie"]
        assert client.get("/").status_code == 200 and client.post("/").status_code == 405


@pytest.mark.slow
def test_progress_grows_while_a_run_is_written(smooth, tmp_path):
    folder = shutil.copytree(smooth, tmp_path / "run")
    lines = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
    of = json.loads(lines[0])["of"]
    (folder / "records.jsonl").write_bytes(b"".join(lines[:of]))
    with Site([folder]) as site:
        client = TestClient(make_app(site), base_url="http://127.0.0.1")
        path = f"/run/{next(iter(site.library.scan.runs()))}/live.json"
        first = client.get(path).json()["run"]
        with (folder / "records.jsonl").open("ab") as file:
            file.write(b"".join(lines[of:]))
        second = client.get(path).json()["run"]
    assert [first["finished"], second["finished"]] == [1, first["units"]]
    assert (first["state"], second["state"]) == ("running", "finished")
    assert second["records"] == len(lines)


def test_the_list_of_runs_shows_the_last_known_count_of_a_growing_run(smooth, tmp_path, monkeypatch):
    folder = shutil.copytree(smooth, tmp_path / "run")
    lines = (folder / "records.jsonl").read_bytes().splitlines(keepends=True)
    of = json.loads(lines[0])["of"]
    with Site([folder]) as site:
        client = TestClient(make_app(site), base_url="http://127.0.0.1")
        monkeypatch.setattr(site.library, "_start", lambda *_: None)  # the file grows faster than it is counted
        assert " of " not in client.get("/").text
        (folder / "records.jsonl").write_bytes(b"".join(lines[:of]))
        site.library._count(list(site.library.scan.runs().values()))
        with (folder / "records.jsonl").open("ab") as file:
            file.write(b"".join(lines[of:]))
        assert re.search(r"\b1 of \d+ units", client.get("/").text)
        (folder / "records.jsonl").write_bytes(b"")  # another run
        assert " of " not in client.get("/").text


@pytest.mark.parametrize("page", ["live.json", "live.html", "cases.html", "case/0-0.html", "index.html"])
def test_a_run_that_is_deleted_while_its_page_is_built_is_no_error_of_the_server(page, client, runs, monkeypatch):
    answers = Library.answers

    def delete_afterwards(library, location):
        result = answers(library, location)
        shutil.rmtree(location.folder, ignore_errors=True)
        return result

    path = f"/run/{run_id(client)}/{page}"
    monkeypatch.setattr(Library, "answers", delete_afterwards)
    assert client.get(path).status_code in (200, 404, 422)
    assert client.get(path).status_code in (200, 404, 422)


def test_templates_escape_everything(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-of-somebody")
    assert environment().autoescape is True
    for path in [
        *TEMPLATES.glob("*"),
        *TEMPLATES.parent.glob("*.py"),
        *TEMPLATES.parent.glob("pages/*.py"),
        *TEMPLATES.parent.glob("rendering/*.py"),
    ]:
        text = path.read_text()
        assert not re.search(r"\|\s*safe\b|autoescape\s+false|Markup\(", text), path
        assert path.suffix != ".html" or not re.search(r"\son\w+=|javascript:|\sstyle=|<style", text), path
    assert not any("innerHTML" in path.read_text(errors="replace") for path in STATIC.glob("*.js"))
    shown = environment().from_string("{{ text }}").render(text="<b>\u202e a-key-of-somebody")
    assert shown == "&lt;b&gt;\\u202e &lt;OPENAI_API_KEY&gt;"


def test_the_command_names_the_extra_and_refuses_what_others_could_read(monkeypatch, tmp_path, capsys):
    assert emend("view", str(tmp_path), "--no-browser") == 2 and "no run found" in capsys.readouterr().err
    assert emend("view", str(tmp_path), "--host", "0.0.0.0") == 2 and "--token" in capsys.readouterr().err
    assert emend("view", str(tmp_path), "--token", "short") == 2 and "16 characters" in capsys.readouterr().err
    assert emend("view", str(tmp_path / "none")) == 2 and "is not a folder" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "starlette", None)
    with pytest.raises(MissingExtra, match=re.escape("pip install 'emend-eval[view]'")):
        require_view()


def test_nothing_is_written_into_a_run_folder(client, runs):
    def state(folder: Path):
        return {path: path.stat().st_mtime_ns for path in folder.rglob("*")}

    before = state(runs)
    run = run_id(client)
    for path in ("index", "cases", "case/0-1", "retrieval", "judges", "errors", "live"):
        for _ in range(20):
            response = client.get(f"/run/{run}/{path}.html")
            if "refresh" not in response.headers or path == "live":
                break
            time.sleep(0.05)
        assert response.status_code == 200
    assert state(runs) == before
