"""A lock for loading models: one at a time per process, without progress bars."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger
from warnings import catch_warnings, simplefilter

# While transformers builds a model, it patches functions of its own classes and of torch, and the
# default dtype, for the whole process: a second thread would load a model without tied weights or
# in the wrong dtype.
_LOCK = threading.RLock()


@contextmanager
def model_load() -> Iterator[None]:
    """Let one thread at a time load, change or save a model, without progress bars and warnings.

    The lock is reentrant. Wrap every use of `from_pretrained`, sentence-transformers or PEFT that
    creates a model or tokenizer in it.
    """
    with _LOCK, _silence():
        yield


@contextmanager
def _silence() -> Iterator[None]:
    from transformers.utils import logging

    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    # peft imports it, and on a CPU it warns about a missing 4-bit kernel
    kernels = getLogger("bitsandbytes")
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
