"""Files are fetched whole from a real server or not at all, and all is written down."""

import gzip
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest
from filelock import FileLock
from pydantic import ValidationError

from emend.evals.data.download import LEDGER, DataSource, Remote, SourceLedger
from emend.evals.data.pull import LOCK, Outcome, Puller
from emend.memory.errors import BadData, FetchFailed
from tests.evals.data.origin import dead_url, flooding, serving

BIG = bytes(range(256)) * 2000  # half a megabyte, no two places within 256 bytes alike


@pytest.fixture
def origin():
    """A server on this machine for the time of a test."""
    with serving() as server:
        yield server


@pytest.fixture(autouse=True)
def no_pause_between_attempts(monkeypatch):
    """Retry at once: pooch waits a second longer before each further attempt."""
    monkeypatch.setattr("pooch.core.time", SimpleNamespace(sleep=lambda seconds: None))


def pull(source: DataSource, folder: Path, retries: int = 0) -> dict[str, Outcome]:
    """Pull a source and return the outcome of each file by its name."""
    return {outcome.name: outcome for outcome in Puller(source, folder, retries=retries).pull()}


def names(folder: Path) -> set[str]:
    """The files that lie there, other than the lock."""
    found = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    return found - {LOCK}


def test_a_file_is_fetched_whole_and_its_origin_licence_and_checksum_are_written_down(origin, tmp_path):
    sum_ = origin.publish("sub/a.json", BIG)
    outcome = pull(origin.source(origin.remote("sub/a.json", f"sha256:{sum_}")), tmp_path / "akew")["sub/a.json"]
    assert (outcome.status, outcome.bytes, outcome.sha256, outcome.pinned) == ("fetched", len(BIG), sum_, True)
    assert (tmp_path / "akew/sub/a.json").read_bytes() == BIG
    assert names(tmp_path / "akew") == {"sub/a.json", LEDGER}
    written = json.loads((tmp_path / "akew" / LEDGER).read_text("utf-8"))
    assert written["data"] == "akew"
    entry = written["files"]["sub/a.json"]
    assert {key: entry[key] for key in ("origin", "url", "commit", "licence", "sha256", "bytes", "pinned")} == {
        "origin": "github.com/them/it",
        "url": origin.url("sub/a.json"),
        "commit": "c0ffee",
        "licence": "MIT",
        "sha256": sum_,
        "bytes": len(BIG),
        "pinned": True,
    }
    assert entry["fetched"].startswith("20")


def test_a_file_without_a_known_checksum_is_recorded_when_it_first_comes(origin, tmp_path):
    sum_ = origin.publish("a.json", b"[1]")
    outcome = pull(origin.source(origin.remote("a.json")), tmp_path)["a.json"]
    assert (outcome.status, outcome.pinned) == ("fetched", False)
    assert SourceLedger.read(tmp_path).files["a.json"].sha256 == sum_


def test_gits_own_id_of_a_content_is_a_checksum_too(origin, tmp_path):
    origin.publish("a.json", b"what is up, doc?")  # the example of git's own book
    digest = "git-blob:bd9dbf5aae1a3862dd1526723246b20206e5fc37"
    assert pull(origin.source(origin.remote("a.json", digest)), tmp_path)["a.json"].pinned


def test_a_second_pull_asks_for_nothing_and_changes_nothing(origin, tmp_path):
    source = origin.source(origin.remote("a.json", f"sha256:{origin.publish('a.json', BIG)}"), origin.remote("b.json"))
    origin.publish("b.json", b"[]")
    pull(source, tmp_path)
    before, ledger = len(origin.sent), (tmp_path / LEDGER).read_bytes()
    assert {outcome.status for outcome in pull(source, tmp_path).values()} == {"there"}
    assert len(origin.sent) == before and (tmp_path / LEDGER).read_bytes() == ledger


# --- what is refused


def test_a_wrong_checksum_is_refused_with_both_sums_and_nothing_is_kept(origin, tmp_path):
    found = origin.publish("a.json", BIG)
    wanted = hashlib.sha256(b"another").hexdigest()
    failed = pull(origin.source(origin.remote("a.json", f"sha256:{wanted}")), tmp_path)["a.json"]
    assert failed.status == "failed" and found in failed.problem and wanted in failed.problem
    assert names(tmp_path) == set()


def test_a_file_that_is_not_there_does_not_stop_the_others(origin, tmp_path):
    origin.publish("b.json", b"[]")
    done = pull(origin.source(origin.remote("a.json"), origin.remote("b.json")), tmp_path, retries=2)
    assert done["b.json"].status == "fetched"
    assert "404" in done["a.json"].problem and origin.url("a.json") in done["a.json"].problem
    assert [path for path, _, _ in origin.sent] == ["/a.json", "/b.json"]  # and it is not asked for twice


def test_a_server_that_is_gone_is_asked_once_and_not_for_its_other_files(tmp_path):
    remotes = [Remote(name=name, url=dead_url(name), licence="MIT") for name in ("a.json", "b.json")]
    done = pull(DataSource(name="akew", remotes=tuple(remotes)), tmp_path)
    assert "no connection to 127.0.0.1" in done["a.json"].problem and "Try again later" in done["a.json"].problem
    assert "did not answer before" in done["b.json"].problem


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_is_said(origin, tmp_path):
    origin.publish("a.json", BIG)
    (tmp_path / "a.json.c0ffee.part").symlink_to("/dev/full")
    failed = pull(origin.source(origin.remote("a.json")), tmp_path)["a.json"]
    assert "no space left" in failed.problem and "--to" in failed.problem


def test_two_pulls_into_one_folder_do_not_meet(origin, tmp_path):
    with FileLock(tmp_path / LOCK), pytest.raises(FetchFailed, match="another process"):
        pull(origin.source(origin.remote("a.json")), tmp_path)


def test_a_pointer_of_git_lfs_and_a_file_that_is_too_short_are_not_taken_for_the_file(origin, tmp_path):
    origin.publish("a.json", b"version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 3\n")
    failed = pull(origin.source(origin.remote("a.json")), tmp_path)["a.json"]
    assert "Git LFS" in failed.problem and names(tmp_path) == set()
    origin.publish("a.json", b"[1")
    remote = origin.remote("a.json").model_copy(update={"size": 3})
    assert "2 bytes were received, but 3 are expected" in pull(origin.source(remote), tmp_path)["a.json"].problem
    assert "a.json" not in names(tmp_path)


def test_a_file_that_is_sent_compressed_is_unpacked(origin, tmp_path):
    sum_ = hashlib.sha256(BIG).hexdigest()
    origin.publish("a.json", gzip.compress(BIG))
    origin.packed = "gzip"
    assert pull(origin.source(origin.remote("a.json", f"sha256:{sum_}")), tmp_path)["a.json"].status == "fetched"
    assert (tmp_path / "a.json").read_bytes() == BIG


def test_only_https_is_fetched_from_elsewhere(tmp_path):
    remotes = (
        Remote(name="a.json", url="http://example.org/a.json", licence="MIT"),
        Remote(name="b.json", url="file:///etc/hostname", licence="MIT"),
    )
    for failed in pull(DataSource(name="akew", remotes=remotes), tmp_path).values():
        assert failed.status == "failed" and "only https" in failed.problem


def test_a_redirect_is_followed_on_the_same_server_alone(origin, tmp_path):
    origin.publish("elsewhere/b.json", b"[]")
    origin.leads = "/elsewhere/b.json"
    assert pull(origin.source(origin.remote("a.json")), tmp_path)["a.json"].status == "fetched"
    with serving() as other:
        other.publish("b.json", b"[]")
        for origin.leads in (
            other.url("b.json"),
            "https://example.org/b.json",
            "file:///etc/b.json",
            "//127.0.0.2/b.json",
        ):
            failed = pull(origin.source(origin.remote("c.json")), tmp_path, retries=2)["c.json"]
            assert failed.status == "failed" and "redirects to another server, which is not followed" in failed.problem
        assert other.sent == [] and names(tmp_path) == {"a.json", LEDGER}


def test_a_file_is_never_larger_than_expected(origin, tmp_path, monkeypatch):
    monkeypatch.setattr("emend.evals.data.download.LARGEST", 100_000)
    origin.publish("a.json", gzip.compress(BIG))
    origin.packed = "gzip"  # a small file that unpacks to a large one
    failed = pull(origin.source(origin.remote("a.json")), tmp_path)["a.json"]
    assert "more than 100,000 bytes" in failed.problem and names(tmp_path) == set()
    origin.packed = ""
    for size, problem in ((50, "more than 50 bytes"), (len(BIG), "")):
        origin.publish("a.json", BIG)
        remote = origin.remote("a.json").model_copy(update={"size": size})
        assert problem in pull(origin.source(remote), tmp_path)["a.json"].problem
    assert names(tmp_path) == {"a.json", LEDGER}


@pytest.mark.parametrize("name", ["../a.json", "/etc/a.json", "a/../../b", "", "a\\b.json", "./a.json"])
def test_a_name_that_leads_out_of_the_folder_is_no_name(name):
    with pytest.raises(ValidationError):
        Remote(name=name, url="https://example.org", licence="MIT")


def test_a_link_that_leads_out_of_the_folder_is_not_written_through(origin, tmp_path):
    origin.publish("sub/a.json", b"[]")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "data").mkdir()
    (tmp_path / "data/sub").symlink_to(tmp_path / "elsewhere")
    failed = pull(origin.source(origin.remote("sub/a.json")), tmp_path / "data")["sub/a.json"]
    assert "points outside" in failed.problem and not list((tmp_path / "elsewhere").iterdir())


# --- what is there already


def test_a_file_of_the_users_own_is_kept_and_not_fetched_over(origin, tmp_path):
    origin.publish("a.json", BIG)
    (tmp_path / "a.json").write_bytes(b"mine")
    assert pull(origin.source(origin.remote("a.json")), tmp_path)["a.json"].status == "kept"
    assert (tmp_path / "a.json").read_bytes() == b"mine" and origin.sent == []


def test_a_file_that_is_another_than_the_checksum_says_is_left_and_said(origin, tmp_path):
    sum_ = origin.publish("a.json", BIG)
    (tmp_path / "a.json").write_bytes(b"mine")
    failed = pull(origin.source(origin.remote("a.json", f"sha256:{sum_}")), tmp_path)["a.json"]
    assert failed.status == "failed" and sum_ in failed.problem and "move it away" in failed.problem
    assert (tmp_path / "a.json").read_bytes() == b"mine"


def test_a_file_that_was_changed_since_it_came_is_said(origin, tmp_path):
    source = origin.source(origin.remote("a.json"))
    origin.publish("a.json", b"[1]")
    pull(source, tmp_path)
    (tmp_path / "a.json").write_bytes(b"[2]")
    assert "another file" in pull(source, tmp_path)["a.json"].problem


def test_a_broken_sources_file_and_a_folder_that_cannot_be_made_are_said(origin, tmp_path):
    (tmp_path / LEDGER).write_text("{", "utf-8")
    with pytest.raises(BadData, match=f"{LEDGER}.*Remove it"):
        pull(origin.source(origin.remote("a.json")), tmp_path)
    (tmp_path / "file").write_text("in the way", "utf-8")
    with pytest.raises(FetchFailed, match=r"cannot write to '.*file/akew'.*--to"):
        pull(origin.source(origin.remote("a.json")), tmp_path / "file" / "akew")


@pytest.fixture
def source(origin):
    """A source of one file with a known checksum."""
    return origin.source(origin.remote("a.json", f"sha256:{origin.publish('a.json', BIG)}"))


def part_size(folder):
    """Bytes kept of the interrupted download."""
    (part,) = folder.glob("a.json.*.part")
    return part.stat().st_size


@pytest.mark.parametrize("reset", [False, True])
def test_an_interrupted_download_keeps_its_bytes_and_continues_behind_them(origin, source, tmp_path, reset):
    origin.cuts, origin.reset = [200_000], reset
    failed = pull(source, tmp_path)["a.json"]
    size = part_size(tmp_path)
    assert failed.status == "failed" and f"{size:,} bytes are kept" in failed.problem
    assert not (tmp_path / "a.json").exists() and 0 < size <= 200_000
    assert pull(source, tmp_path)["a.json"].status == "fetched"
    assert origin.sent[-1] == ("/a.json", f"bytes={size}-", len(BIG) - size)
    assert (tmp_path / "a.json").read_bytes() == BIG and names(tmp_path) == {"a.json", LEDGER}


def test_a_server_that_sends_a_byte_now_and_then_is_given_up_and_its_bytes_are_kept(
    origin, source, tmp_path, monkeypatch
):
    monkeypatch.setattr("emend.evals.data.transfer.SLOW_SECONDS", 2.0)
    origin.pause = 0.02
    failed = pull(source, tmp_path)["a.json"]
    assert "fewer than 500 bytes per second in 2 s" in failed.problem and "bytes are kept" in failed.problem
    assert 0 < part_size(tmp_path) < 250
    origin.pause = 0.0
    assert pull(source, tmp_path)["a.json"].status == "fetched"


def test_a_server_that_drips_its_headers_is_given_up(origin, source, tmp_path, monkeypatch):
    monkeypatch.setattr("emend.evals.data.transfer.SLOW_SECONDS", 0.3)
    origin.dripping, begin = True, time.monotonic()
    failed = pull(source, tmp_path)["a.json"]
    assert "no complete headers in 0.3 s" in failed.problem and time.monotonic() - begin < 10
    origin.dripping = False
    assert pull(source, tmp_path)["a.json"].status == "fetched"


def test_the_body_of_a_redirect_is_not_read(tmp_path):
    with flooding(b"HTTP/1.1 302 Found\r\nLocation: /a.json\r\n\r\n", b"x" * 65536) as (url, sent):
        source = DataSource(name="akew", remotes=(Remote(name="a.json", url=url, licence="MIT"),))
        assert "redirects more than 10 times" in pull(source, tmp_path)["a.json"].problem
    assert len(sent) == 10 and sum(sent) < 2000, "more than 128 MB were read"


def test_a_server_that_sends_trailers_without_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr("emend.evals.data.transfer.SLOW_SECONDS", 1.0)
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n[]\r\n0\r\n"
    begin = time.monotonic()
    with flooding(head, b"X-A: a\r\n" * 1000) as (url, _):
        source = DataSource(name="akew", remotes=(Remote(name="a.json", url=url, licence="MIT"),))
        assert "no more bytes in 1 s" in pull(source, tmp_path)["a.json"].problem
        assert time.monotonic() - begin < 5


def test_a_retry_of_the_same_pull_continues_too(origin, source, tmp_path):
    origin.cuts = [200_000, 0, 200_000]
    assert pull(source, tmp_path, retries=3)["a.json"].status == "fetched"
    assert [asked for _, asked, _ in origin.sent][0] == "" and origin.sent[-1][1].startswith("bytes=")
    assert (tmp_path / "a.json").read_bytes() == BIG


def test_a_pull_that_is_interrupted_by_hand_keeps_its_bytes_and_unlocks_the_folder(origin, source, tmp_path):
    @contextmanager
    def impatient(name: str, size: int | None) -> Iterator[Callable[[int, int | None], None]]:
        def report(done: int, total: int | None) -> None:
            raise KeyboardInterrupt

        yield report

    with pytest.raises(KeyboardInterrupt):
        Puller(source, tmp_path, impatient).pull()
    size = part_size(tmp_path)
    assert 0 < size < len(BIG)
    assert pull(source, tmp_path)["a.json"].status == "fetched"
    assert origin.sent[-1] == ("/a.json", f"bytes={size}-", len(BIG) - size)


def test_a_server_that_ignores_ranges_makes_the_download_start_over(origin, source, tmp_path):
    origin.cuts, origin.ranges = [100_000], False
    pull(source, tmp_path)
    assert pull(source, tmp_path)["a.json"].status == "fetched"
    assert [count for _, _, count in origin.sent] == [100_000, len(BIG)]
    assert (tmp_path / "a.json").read_bytes() == BIG


@pytest.mark.parametrize(("before", "after"), [("", ""), ("0ld", "c0ffee")])
def test_bytes_of_another_version_or_of_none_are_not_continued(origin, tmp_path, before, after):
    origin.publish("a.json", BIG)
    origin.cuts = [100_000]
    failed = pull(origin.source(origin.remote("a.json", commit=before)), tmp_path)["a.json"]
    assert ("bytes are kept" in failed.problem) == bool(before)
    origin.publish("a.json", BIG[::-1])
    pull(origin.source(origin.remote("a.json", commit=after)), tmp_path)
    assert origin.sent[-1] == ("/a.json", "", len(BIG)) and (tmp_path / "a.json").read_bytes() == BIG[::-1]


def test_more_bytes_than_the_file_has_are_discarded(origin, tmp_path):
    source = origin.source(origin.remote("a.json"))
    origin.publish("a.json", b"[1]")
    (tmp_path / "a.json.c0ffee.part").write_bytes(BIG)
    assert pull(source, tmp_path, retries=1)["a.json"].status == "fetched"
    assert (tmp_path / "a.json").read_bytes() == b"[1]"


def test_a_server_that_is_busy_is_asked_again(origin, tmp_path):
    origin.publish("a.json", b"[1]")
    origin.says = [503, 429]
    assert pull(origin.source(origin.remote("a.json")), tmp_path, retries=2)["a.json"].status == "fetched"
    assert len(origin.sent) == 3
