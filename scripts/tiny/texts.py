"""Write the texts of which the embedded model's covariance is collected: `python -m scripts.tiny.texts`."""

import gzip
import json

from emend.agents.tiny import TEXTS
from emend.agents.tiny.world import World
from scripts.tiny.reasoning import TrainingCorpus

COUNT = 1500


def texts() -> list[str]:
    """Return documents of a seed that the training does not draw."""
    corpus = TrainingCorpus(World(), seed=1)
    return ["".join(span.text for span in corpus.document()) for _ in range(COUNT)]


if __name__ == "__main__":
    TEXTS.write_bytes(gzip.compress(json.dumps(texts()).encode(), mtime=0))
