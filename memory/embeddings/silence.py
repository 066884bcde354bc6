"""Silences libraries while they load models."""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger
from warnings import catch_warnings, simplefilter


@contextmanager
def silence() -> Iterator[None]:
    """Context without progress bars and warnings while a model or its libraries are loaded or saved."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    kernels = getLogger("bitsandbytes")  # peft imports it, and on a CPU it warns of a missing kernel for 4 bits
    kernel_level = kernels.level
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    kernels.setLevel("CRITICAL")
    try:
        with catch_warnings():
            simplefilter("ignore", FutureWarning)
            yield
    finally:
        kernels.setLevel(kernel_level)
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
