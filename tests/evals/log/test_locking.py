"""A run owns its folder before the first model call."""

import pytest

from emend.evals.log.locking import owned_folder
from emend.memory.errors import RunRefused


def test_a_folder_is_created_with_its_parents_and_removed_if_it_stays_empty(tmp_path):
    folder = tmp_path / "runs" / "today"
    with owned_folder(folder):
        assert folder.is_dir()
    assert not folder.exists()


def test_a_second_owner_is_refused(tmp_path):
    with owned_folder(tmp_path / "run"), pytest.raises(RunRefused, match="another process"):
        with owned_folder(tmp_path / "run"):
            pass
