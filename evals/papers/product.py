"""Registry rows of the papers: commands that reproduce their tables, and their analyses."""

COMMANDS = "emend.evals.papers.commands"
ANALYSES = "emend.evals.papers.analyses"
# By entry point group and name: location, summary, and a command's help panel.
ROWS = {
    "emend.commands": {
        "reproduce": (
            f"{COMMANDS}.reproduce:reproduce",
            "List published tables, print one, or run one and compare.",
            "Evaluate",
        ),
        "sweep": (
            f"{COMMANDS}.reproduce:sweep",
            "Run your own grid of models, settings and options.",
            "Evaluate",
        ),
        "papers": (
            f"{COMMANDS}.published:papers",
            "emend reproduce TABLE --published",
            "Old names",
        ),
    },
    "emend.analyses": {
        "drop": (
            f"{ANALYSES}.akew:DROP",
            "AKEW: loss of accuracy from struct to unstruct and extract.",
        ),
        "errors": (f"{ANALYSES}.akew:ERROR_TYPES", "AKEW: failed edits by type of error."),
        "triples": (
            f"{ANALYSES}.docter:TRIPLES",
            "DocTER: quality of extracted triplets, by file.",
        ),
        "frequency": (
            f"{ANALYSES}.docter:FREQUENCY",
            "DocTER: success by number of mentions of the fact.",
        ),
        "position": (
            f"{ANALYSES}.docter:POSITION",
            "DocTER: success by position of the object's first mention.",
        ),
        "crosslingual": (
            f"{ANALYSES}.docter:CROSSLINGUAL",
            "DocTER: cross-lingual transfer by direction.",
        ),
        "reasoning": (
            f"{ANALYSES}.docter:REASONING",
            "DocTER: accuracy by label, compared with constant answers.",
        ),
        "known": (
            f"{ANALYSES}.elken:KNOWN_UNKNOWN",
            "ELKEN: reliability by whether the new answer is known or unknown.",
        ),
        "background": (
            f"{ANALYSES}.elken:BACKGROUND",
            "ELKEN: with and without background knowledge.",
        ),
        "event-type": (f"{ANALYSES}.elken:EVENT_TYPE", "ELKEN: reliability by type of event."),
        "tendency": (
            f"{ANALYSES}.elken:TENDENCY",
            "ELKEN: share of free-form answers with full marks, by scale.",
        ),
        "perplexity": (
            f"{ANALYSES}.recoe:PERPLEXITY",
            "ReCoE: perplexities of facts and counterfactuals before and after edits.",
        ),
        "recall-coherence": (
            f"{ANALYSES}.recoe:RECALL",
            "ReCoE: fact recall against coherence of thoughts.",
        ),
        "scheme": (f"{ANALYSES}.recoe:SCHEME", "ReCoE: correct_flip by reasoning scheme."),
    },
    "emend.report_parts": {
        "against": (
            "emend.evals.papers.show.against:against_part",
            "A run next to a published table.",
        ),
    },
}
