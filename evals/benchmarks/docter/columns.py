"""DocTER's metrics: the paper's columns, reasoning by label, generation match, retrieval."""

from emend.evals.benchmarks.base import percent

LABELS, CODE, RETRIEVAL = "reasoning by label", "as the released code computes it", "retrieval"
GENERATED = "generation match, for models without probabilities"
BLOCK_OF = {
    "efficacy": "edit_success",
    "paraphrase": "edit_success",
    "neighborhood": "locality",
    "reasoning": "reasoning",
    "cross_lingual": "cross",
}
"""Block of each kind of probe; `cross` is either direction."""
_ROWS = (
    # group, name, value, kind, summary
    ("", "ES", "success", "efficacy", "new target more probable than the old, query"),
    ("", "NEM", "magnitude", "efficacy", "by how much, as a share of the larger surprise"),
    ("", "PS", "success", "paraphrase", "new target more probable than the old, paraphrases"),
    ("", "NPM", "magnitude", "paraphrase", "by how much"),
    ("", "NS", "success", "neighborhood", "old target more probable, other subjects"),
    ("", "NNM", "magnitude", "neighborhood", "by how much"),
    ("", "Acc", "acc", "reasoning", "yes/no questions that need the new fact"),
    ("", "CES", "success", "cross_lingual", "new target more probable, other language"),
    ("", "CEM", "magnitude", "cross_lingual", "by how much"),
    (LABELS, "Acc True", "acc_true", "reasoning", "questions whose label is True"),
    (LABELS, "Acc False", "acc_false", "reasoning", "questions whose label is False"),
    (LABELS, "always True", "constant", "reasoning", "what answering True to everything would score, for comparison"),
    *(
        (CODE, f"{name} code", f"{value}_code", kind, "its three exceptions and its eps included")
        for name, value, kind in (
            ("ES", "success", "efficacy"),
            ("NEM", "magnitude", "efficacy"),
            ("PS", "success", "paraphrase"),
            ("NPM", "magnitude", "paraphrase"),
            ("NS", "success", "neighborhood"),
            ("NNM", "magnitude", "neighborhood"),
            ("CES", "success", "cross_lingual"),
            ("CEM", "magnitude", "cross_lingual"),
        )
    ),
    (GENERATED, "ES text", "generated", "efficacy", "reply names the new target and not the old, query"),
    (GENERATED, "PS text", "generated", "paraphrase", "reply names the new target and not the old, paraphrases"),
    (GENERATED, "NS text", "generated", "neighborhood", "reply names the old target and not the new, other subjects"),
    (GENERATED, "CES text", "generated", "cross_lingual", "reply names the new target and not the old, other language"),
    (RETRIEVAL, "hit@1 query", "hit@1", "efficacy", "the edit was found first, query"),
    (RETRIEVAL, "hit@1 paraphrase", "hit@1", "paraphrase", "the edit was found first, paraphrases"),
)

COLUMNS = tuple(
    percent(name, value, (kind,), summary, group=group, share=not value.startswith("magnitude"))
    for group, name, value, kind, summary in _ROWS
)
"""All of them, in percent, in the order of the paper's tables."""
