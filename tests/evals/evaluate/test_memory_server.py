"""Runs whose memory is on a Chroma server retrieve what they retrieve from their own folder, also side by side."""

from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest

from emend.evals.config.run_config import RunConfig
from emend.evals.evaluate.merge import merge
from emend.evals.log.manifest import MANIFEST
from emend.memory.errors import BadSettings
from tests.evals.toy_runs import config, go, steps_of, untimed_records
from tests.memory.conftest import server as server  # noqa: PLC0414  a fixture

RUN: dict[str, Any] = {"editors": ("rag", "ike"), "embedding": "lexical", "benchmark_options": {"cases": "12"}}


def evaluate(folder: Path, url: str, share: str | None) -> int:
    """What a process does."""
    return go(folder, **RUN, mode="batch:3", memory_server=url, share=share).records


@pytest.mark.slow
def test_runs_and_shares_on_a_server_are_the_local_run(tmp_path: Path, server: str) -> None:
    go(tmp_path / "local", **RUN, mode="batch:3")
    with ProcessPoolExecutor(4, get_context("forkserver")) as pool:
        work = {tmp_path / f"x.{n}": f"{n}/3" for n in (1, 2, 3)} | {tmp_path / "whole": None}
        assert sum(pool.map(evaluate, work, [server] * 4, work.values())) == 2 * 48
    merge([tmp_path / f"x.{n}" for n in (1, 2, 3)], tmp_path / "x")
    for name in ("x", "whole"):
        assert untimed_records(tmp_path / name) == untimed_records(tmp_path / "local")
        assert steps_of(tmp_path / name) == steps_of(tmp_path / "local")
        assert not (tmp_path / name / "memory").exists()


@pytest.mark.slow
def test_a_server_that_is_gone_ends_the_run_with_its_remedy(tmp_path: Path) -> None:
    with pytest.raises(BadSettings, match=r"no Chroma server at 'http://127.0.0.1:9'.*chroma run"):
        go(tmp_path / "x", **RUN, memory_server="http://127.0.0.1:9", fail_on_error="false")
    assert (tmp_path / "x" / MANIFEST).exists()


@pytest.mark.parametrize(
    "address",
    ["emend-memory", "127.0.0.1:8000", "http://user:key-123456@host:1", "http://host:1/?token=x", "ftp://h:1"],
)
def test_only_the_plain_address_of_a_server_is_accepted(address: str) -> None:
    with pytest.raises(BadSettings, match="--memory") as error:
        RunConfig.model_validate(config().model_dump() | {"memory_server": address})
    assert "key-123456" not in str(error.value)
