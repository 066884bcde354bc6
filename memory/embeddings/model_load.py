"""Loading of models: one at a time in a process, and silently."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from logging import getLogger
from warnings import catch_warnings, simplefilter

# While transformers builds a model it replaces functions of its own classes and of torch, and the default dtype, for
# the whole process: a second thread would load a model without tied weights, or in the other's dtype.
_LOCK = threading.RLock()


@contextmanager
def model_load() -> Iterator[None]:
    """Context in which one thread at a time loads, changes or saves a model, without progress bars and warnings.

    A thread may enter it again inside. Every use of `from_pretrained`, sentence-transformers or PEFT that makes a
    model or a tokenizer belongs into it.
    """
    with _LOCK, _silence():
        yield


@contextmanager
def _silence() -> Iterator[None]:
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
