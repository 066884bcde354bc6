"""Registry rows of the streams: commands, job, memory systems and analysis, and the MCP server."""

# By entry-point group and name: the import path, a summary, and the panel of a command, or the
# benchmark that run folders of earlier versions name instead of a job.
ROWS = {
    "emend.commands": {
        "stream": (
            "emend.evals.streams.commands.stream:stream",
            "Evaluate memory systems on a stream of turns; generate and check streams.",
            "Evaluate",
        ),
        "mcp": (
            "emend.evals.streams.commands.mcp:mcp",
            "Serve a memory of facts to agents over MCP.",
            "Edits and memory",
        ),
    },
    "emend.jobs": {
        "stream": (
            "emend.evals.streams.run.job:load_job",
            "Turns and questions of a stream, put to memory systems.",
            "stream",
        ),
    },
    "emend.job_tables": {
        "stream": (
            "emend.evals.streams.run.tables:TABLES",
            "Turns that were observed, and answers to the questions after them.",
        ),
    },
    "emend.pages": {
        "turns": (
            "emend.evals.streams.show.turns_page:TURNS_PAGE",
            "Turns of a stream, and what was recalled for the questions after them.",
        ),
    },
    "emend.lists": {
        "systems": (
            "emend.evals.streams.system:SYSTEMS",
            "Memory systems to evaluate on streams (--system).",
        ),
    },
    "emend.analyses": {
        "memory": (
            "emend.evals.streams.show.analysis:MEMORY",
            "Streams: right answers by hops, and by the age of the fact.",
        ),
    },
}
