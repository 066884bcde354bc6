"""Inside it nothing is said, and afterwards all is as it was, an error notwithstanding."""

import warnings
from logging import getLogger

import pytest

from emend.memory.embeddings.silence import silence


def test_libraries_are_silent_inside_and_as_before_afterwards(caplog, recwarn):
    from transformers.utils import logging

    kernels, before = getLogger("bitsandbytes"), (logging.get_verbosity(), logging.is_progress_bar_enabled())
    kernels.setLevel("ERROR")
    try:
        with pytest.raises(KeyError), silence():
            getLogger("bitsandbytes.backends").error("no kernel")
            warnings.warn("will be gone", FutureWarning, stacklevel=1)
            assert not logging.is_progress_bar_enabled()
            raise KeyError
        assert kernels.level == 40
    finally:
        kernels.setLevel("NOTSET")
    assert not caplog.records and not recwarn.list
    assert (logging.get_verbosity(), logging.is_progress_bar_enabled()) == before
