"""An interrupted download goes on behind the bytes that came, unless they can no longer be trusted."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from emend.evals.data.digests import LEDGER
from emend.evals.data.pull import Puller
from tests.evals.data.pulls import BIG, names, pull


def test_an_interrupted_download_keeps_its_bytes_and_goes_on_behind_them(origin, tmp_path):
    source = origin.source(origin.remote("a.json", f"sha256:{origin.publish('a.json', BIG)}"))
    origin.cuts = [200_000]
    failed = pull(source, tmp_path)["a.json"]
    assert failed.status == "failed" and "200,000 bytes are kept" in failed.problem
    assert names(tmp_path) == {"a.json.part", "a.json.part.json"}
    assert (tmp_path / "a.json.part").read_bytes() == BIG[:200_000]
    assert pull(source, tmp_path)["a.json"].status == "fetched"
    assert origin.sent == [("/a.json", "", 200_000), ("/a.json", "bytes=200000-", len(BIG) - 200_000)]
    assert (tmp_path / "a.json").read_bytes() == BIG and names(tmp_path) == {"a.json", LEDGER}


def test_a_further_try_of_the_same_pull_goes_on_too(origin, tmp_path):
    origin.publish("a.json", BIG)
    origin.cuts, origin.reset = [100_000, 0, 100_000], False
    assert pull(origin.source(origin.remote("a.json")), tmp_path, 0, 0, 0)["a.json"].status == "fetched"
    assert sum(count for _, _, count in origin.sent) == len(BIG)
    assert (tmp_path / "a.json").read_bytes() == BIG


def test_a_connection_that_is_reset_in_the_middle_is_an_interruption(origin, tmp_path):
    source = origin.source(origin.remote("a.json", f"sha256:{origin.publish('a.json', BIG)}"))
    origin.cuts, origin.reset = [100_000], True
    failed = pull(source, tmp_path)["a.json"]
    assert failed.status == "failed" and "broke off" in failed.problem and not (tmp_path / "a.json").exists()
    assert pull(source, tmp_path)["a.json"].status == "fetched"
    assert (tmp_path / "a.json").read_bytes() == BIG


class Impatient:
    """Somebody who presses Ctrl-C when the first bytes are there."""

    @contextmanager
    def file(self, name: str, size: int | None) -> Iterator[Callable[[int, int | None], None]]:
        def told(done: int, total: int | None) -> None:
            if done:
                raise KeyboardInterrupt

        yield told


def test_a_pull_that_is_broken_off_by_hand_keeps_its_bytes_and_lets_go_of_the_folder(origin, tmp_path):
    source = origin.source(origin.remote("a.json", f"sha256:{origin.publish('a.json', BIG)}"))
    with pytest.raises(KeyboardInterrupt):
        Puller(source, tmp_path, Impatient()).pull()
    had = (tmp_path / "a.json.part").stat().st_size
    assert 0 < had < len(BIG)
    assert pull(source, tmp_path)["a.json"].status == "fetched"
    assert origin.sent[-1] == ("/a.json", f"bytes={had}-", len(BIG) - had)
    assert (tmp_path / "a.json").read_bytes() == BIG


def test_a_server_that_ignores_ranges_makes_the_download_begin_again(origin, tmp_path):
    source = origin.source(origin.remote("a.json", f"sha256:{origin.publish('a.json', BIG)}"))
    origin.cuts, origin.ranges = [100_000], False
    pull(source, tmp_path)
    assert pull(source, tmp_path)["a.json"].status == "fetched"
    assert [count for _, _, count in origin.sent] == [100_000, len(BIG)]
    assert (tmp_path / "a.json").read_bytes() == BIG


def test_a_file_that_changed_in_between_is_fetched_anew_and_not_mixed(origin, tmp_path):
    source = origin.source(origin.remote("a.json"))
    origin.publish("a.json", BIG)
    origin.cuts, origin.tag = [100_000], '"one"'
    pull(source, tmp_path)
    origin.publish("a.json", BIG[::-1])
    origin.tag = '"two"'
    pull(source, tmp_path)
    assert (tmp_path / "a.json").read_bytes() == BIG[::-1]


def test_bytes_of_another_address_are_not_gone_on_with(origin, tmp_path):
    origin.publish("old.json", BIG)
    origin.cuts = [100_000]
    old = origin.remote("old.json").model_copy(update={"name": "a.json"})
    pull(origin.source(old), tmp_path)
    origin.publish("a.json", BIG[::-1])
    pull(origin.source(origin.remote("a.json")), tmp_path)
    assert origin.sent[-1] == ("/a.json", "", len(BIG))
    assert (tmp_path / "a.json").read_bytes() == BIG[::-1]


def test_what_had_come_whole_before_the_check_is_checked_and_not_fetched_again(origin, tmp_path):
    source = origin.source(origin.remote("a.json", f"sha256:{origin.publish('a.json', BIG)}"))
    (tmp_path / "a.json.part").write_bytes(BIG)
    (tmp_path / "a.json.part.json").write_text(json.dumps({"url": origin.url("a.json")}), "utf-8")
    assert pull(source, tmp_path)["a.json"].status == "fetched"
    assert origin.sent == [("/a.json", f"bytes={len(BIG)}-", 0)]


def test_more_bytes_than_the_file_has_are_thrown_away(origin, tmp_path):
    source = origin.source(origin.remote("a.json", f"sha256:{origin.publish('a.json', b'[1]')}"))
    (tmp_path / "a.json.part").write_bytes(BIG)
    (tmp_path / "a.json.part.json").write_text(json.dumps({"url": origin.url("a.json")}), "utf-8")
    assert pull(source, tmp_path, 0)["a.json"].status == "fetched"
    assert (tmp_path / "a.json").read_bytes() == b"[1]"


def test_a_server_that_is_busy_is_asked_again(origin, tmp_path):
    origin.publish("a.json", b"[1]")
    origin.says = [503, 429]
    assert pull(origin.source(origin.remote("a.json")), tmp_path, 0, 0)["a.json"].status == "fetched"
    assert len(origin.sent) == 3
