"""The table of sources is safe to follow and agrees with what the loaders look for."""

import re

import pytest

from emend.evals.data.benchmarks.registry import BENCHMARKS
from emend.evals.data.download import SOURCES, check_url, source_of
from emend.evals.data.pull import MAKERS
from emend.evals.data.shapes import SHAPES
from emend.memory.errors import BadSettings, MissingData

REMOTES = [(name, remote) for name, source in SOURCES.items() for remote in source.remotes]


def test_every_benchmark_that_needs_files_has_sources_shapes_and_known_makers():
    without_files = {
        "tinyworld",
        "chats",
        "knowledge",
    }  # a generated world, the user's own messages, and another benchmark's
    assert set(SOURCES) == set(SHAPES) == set(BENCHMARKS.builtin) - without_files
    for source in SOURCES.values():
        for made in source.derived:
            assert made.maker in MAKERS and set(made.inputs) <= {remote.name for remote in source.remotes}


@pytest.mark.parametrize(("data", "remote"), REMOTES, ids=[f"{name}:{remote.name}" for name, remote in REMOTES])
def test_a_source_is_fetched_safely_from_one_version_under_a_named_licence(data, remote):
    check_url(remote.url)
    assert remote.url.startswith("https://") and remote.licence
    assert re.fullmatch(r"|sha256:[0-9a-f]{64}|git-blob:[0-9a-f]{40}", remote.digest)
    if remote.repository:
        assert re.fullmatch("[0-9a-f]{40}", remote.commit)
        assert remote.url.startswith(f"https://raw.{remote.repository.replace('github', 'githubusercontent')}/")
        assert f"/{remote.commit}/" in remote.url


@pytest.mark.parametrize("data", list(SOURCES))
def test_every_file_that_a_loader_looks_for_first_is_fetched_or_made(data):
    source = SOURCES[data]
    had = [remote.name for remote in source.remotes] + [made.name for made in source.derived]
    assert len(had) == len(set(had))
    for shape in SHAPES[data]:
        assert set(shape.names) & set(had), shape.names


@pytest.mark.parametrize("data", list(SOURCES))
def test_a_missing_folder_is_said_with_the_command_that_fetches_it(data, tmp_path):
    with pytest.raises(MissingData, match=f"emend data pull {data}"):
        BENCHMARKS.load(data)(tmp_path / "nowhere", {})


def test_a_name_that_is_not_known_gets_the_nearest_one():
    with pytest.raises(BadSettings, match="akew"):
        source_of("akw")
    with pytest.raises(BadSettings, match="needs no data"):
        source_of("tinyworld")
