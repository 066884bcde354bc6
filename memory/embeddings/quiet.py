"""Loading libraries and models without noise."""

from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger
from warnings import catch_warnings, simplefilter


@contextmanager
def quiet() -> Iterator[None]:
    """No progress bar and no warnings while a model or its libraries are loaded or saved; afterwards as before."""
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    kernels = getLogger("bitsandbytes")  # peft imports it, and on a CPU it says that a kernel for 4 bits is missing
    heard = kernels.level
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    kernels.setLevel("CRITICAL")
    try:
        with catch_warnings():
            simplefilter("ignore", FutureWarning)
            yield
    finally:
        kernels.setLevel(heard)
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
