"""An interrupted download continues behind the bytes that arrived, where the content cannot have changed."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from emend.evals.data.digests import LEDGER
from emend.evals.data.pull import Puller
from tests.evals.data.pulls import BIG, names, pull


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


def test_a_file_without_commit_and_checksum_may_have_changed_and_starts_over(origin, tmp_path):
    source = origin.source(origin.remote("a.json", commit=""))
    origin.publish("a.json", BIG)
    origin.cuts = [100_000]
    assert "bytes are kept" not in pull(source, tmp_path)["a.json"].problem
    origin.publish("a.json", BIG[::-1])
    pull(source, tmp_path)
    assert origin.sent[-1] == ("/a.json", "", len(BIG)) and (tmp_path / "a.json").read_bytes() == BIG[::-1]


def test_bytes_of_another_version_are_not_continued(origin, tmp_path):
    origin.publish("a.json", BIG)
    origin.cuts = [100_000]
    pull(origin.source(origin.remote("a.json", commit="0ld")), tmp_path)
    origin.publish("a.json", BIG[::-1])
    pull(origin.source(origin.remote("a.json")), tmp_path)
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
