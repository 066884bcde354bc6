"""How DocTER's code turns one forward pass into the probability of a target: by counting tokens.

Definition of H-shw/DocTER-Data-and-Code, eval_base/. Emend's own engine takes what the longest common token prefix of
prompt and whole leaves over, and a real mask; this is the variant `original`, for putting a number beside the code's.
"""

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

PAD_ID = 0


def counted_probability(context: Sequence[int], whole: Sequence[int], logits: ArrayLike, pad_id: int = PAD_ID) -> float:
    """The joint probability of a target, found by counting the ids that are not `pad_id`.

    Three things follow from the counting, and are the code's: a pad id that stands inside the text shifts the place
    and the number of tokens; where appending the target changes how the prompt's end is cut, another number of tokens
    is scored than the target has; and where both rows count the same, nothing is scored and the probability is 1.

    Args:
        context: token ids of the prompt, right-padded.
        whole: token ids of prompt, space and target, right-padded.
        logits: of `whole`, shape (len(whole), vocabulary), natural-log units up to a constant per row.
        pad_id: what the code takes for padding, 0 whatever the tokenizer.
    """
    before, length = (sum(token != pad_id for token in row) for row in (context, whole))
    rows = np.asarray(logits, dtype=np.float32)
    rows = np.exp(rows - rows.max(axis=-1, keepdims=True))
    found = rows / rows.sum(axis=-1, keepdims=True)  # a softmax in float32, as the code's
    scored = list(pairwise(range(length)))[max(0, before - 1) :] if length > before else []
    return math.prod(float(found[place, whole[after]]) for place, after in scored)
