"""A user's embedding, named as `module:attribute`; its vectors are validated."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from emend.memory.embeddings.model_families import DOT
from emend.memory.errors import BadSettings
from emend.memory.registry import Registry

EMBEDDINGS: Registry[Any] = Registry(
    kind="embedding", group="emend.embeddings", interfaces=(("documents", "queries"),)
)
SAMPLE = ("The capital of Veldania is Ostrim.", "Who lives in Ostrim?")
# Maximum deviation of a row's length from 1; float16 vectors stay within it.
CLOSE = 1e-2


class UserEmbedding:
    """The embedding returned by a class or function without arguments; its `identity` is prefixed
    with the name.

    Raises:
        BadSettings: it cannot be loaded or created, or its vectors have a wrong shape or length;
            also raised by `documents` and `queries`.
    """

    def __init__(self, spec: str) -> None:
        self._spec = spec
        with EMBEDDINGS.plugin_errors(spec):
            self._embedding = EMBEDDINGS.load(spec)()
        lacking = [
            name
            for name in ("identity", "documents", "queries")
            if not getattr(self._embedding, name, "")
        ]
        if lacking:
            raise self._wrong(
                f"it returned {self._embedding!r:.60}, which has no {', no '.join(lacking)}"
            )
        self.identity = f"{spec}/{self._embedding.identity}"
        self._dimensions = 0
        self._dimensions = int(self.documents(SAMPLE).shape[1])
        self.queries(SAMPLE)

    def documents(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Shape (len(texts), dimensions), float32, rows of length 1 unless the identity ends in
        `/dot`.
        """
        return self._vectors("documents", texts)

    def queries(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Vectors of queries, of the same shape."""
        return self._vectors("queries", texts)

    def _vectors(self, role: str, texts: Sequence[str]) -> NDArray[np.float32]:
        if not texts:
            return np.zeros((0, self._dimensions), dtype=np.float32)
        with EMBEDDINGS.plugin_errors(self._spec):
            vectors = np.asarray(getattr(self._embedding, role)(list(texts)), dtype=np.float32)
        across = self._dimensions or max(1, vectors.shape[-1] if vectors.ndim else 1)
        if vectors.shape != (len(texts), across):
            raise self._wrong(
                f"{role} of {len(texts)} texts have the shape {vectors.shape}, not "
                f"{(len(texts), across)}"
            )
        lengths = np.linalg.norm(vectors, axis=1)
        if not np.isfinite(lengths).all():
            raise self._wrong(
                f"{role} of {texts[int(np.isfinite(lengths).argmin())][:60]!r} are not finite"
            )
        off = (abs(lengths - 1) > CLOSE) & (lengths > 0)  # length 0: a text without known words
        if off.any() and not self.identity.endswith(f"/{DOT}"):
            raise self._wrong(
                f"{role} of {texts[int(off.argmax())][:60]!r} have the length "
                f"{lengths[off.argmax()]:.3g} instead of 1: normalise them, or let the identity "
                f"end in '/{DOT}'"
            )
        return vectors

    def _wrong(self, what: str) -> BadSettings:
        return BadSettings(
            f"embedding '{self._spec}': {what}. See docs/how-to/extend.md, An embedding."
        )
