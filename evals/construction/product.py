"""Components of constructions by entry-point group and name, as import paths that are loaded
lazily.
"""

ROWS: dict[str, dict[str, tuple[str, ...]]] = {
    "emend.commands": {
        "build": (
            "emend.evals.construction.commands.build:build",
            "Build a benchmark from facts or documents; repeat to continue.",
            "Evaluate",
        ),
    },
    "emend.benchmarks": {
        "knowledge": (
            "emend.evals.construction.knowledge:Knowledge",
            "facts of another benchmark, without edits: which of them a model knows",
        ),
    },
    "emend.lists": {
        "constructions": (
            "emend.evals.construction.registry:CONSTRUCTIONS",
            "Kinds of benchmarks that emend build creates.",
        ),
    },
    "emend.graphs": {
        "debate": (
            "emend.graphs.construction.debate:build",
            "Several agents answer, read each other's reasons, revise their answers, and vote.",
        ),
    },
    "emend.jobs": {
        "construct": (
            "emend.evals.construction.items.job:load_job",
            "Items of a source, made by a graph.",
            # benchmark name in folders of earlier versions, which have no job name
            "items",
        ),
    },
    "emend.job_tables": {
        "construct": (
            "emend.evals.construction.items.tables:TABLES",
            "Items of the source, their results and rejections.",
        ),
    },
    "emend.label_sources": {
        "built_items": (
            "emend.evals.construction.show.label_source:BUILT_ITEMS",
            "Items of a construction that passed its filters.",
        ),
    },
}
