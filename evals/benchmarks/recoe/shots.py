"""Solved chains of thought for ReCoE, two per scheme, about invented places and things.

The paper publishes no prompt for its chain-of-thought runs; the lines `Question:`, `Thoughts:` and `Answer:` are those
of the examples that it prints (Figures 13 and 14), and an answer has the form of the scheme's answers in the data.
"""

COT_PROMPT = "Question: {question}\nThoughts:"

_SHOTS: dict[str, tuple[tuple[str, str, str], ...]] = {
    "superlative": (
        (
            "Which cave of Oxley Fen is the deepest?",
            "The caves of Oxley Fen are Dunn and Sorrel. Dunn is 40 metres deep. Sorrel is 90 metres deep.",
            "Sorrel",
        ),
        (
            "Who is the oldest miller of Tarnfield?",
            "Ada Cobb was born in 1931. Ole Brandt was born in 1940. So Ada Cobb is the older one.",
            "Ada Cobb",
        ),
    ),
    "comparative": (
        (
            "Is the cave Dunn deeper than the cave Sorrel?",
            "Dunn is 40 metres deep. Sorrel is 90 metres deep.",
            "No",
        ),
        (
            "Which was built first, Cobb's Mill or Reed Mill?",
            "Cobb's Mill was built in 1820. Reed Mill was built in 1764.",
            "Reed Mill",
        ),
    ),
    "counting": (
        (
            "How many windmills turn on Oxley Fen?",
            "The windmills on Oxley Fen are Cobb's Mill, Reed Mill and Low Mill.",
            "3",
        ),
        (
            "How many ferries cross the Halver?",
            "The ferries across the Halver are the Gull and the Tern. The Heron was sold, so it does not count.",
            "2",
        ),
    ),
    "sorting": (
        (
            "Sort the caves Dunn, Sorrel and Pike by depth from deep to shallow.",
            "Dunn is 40 metres deep. Sorrel is 90 metres deep. Pike is 12 metres deep.",
            "Sorrel, Dunn, Pike",
        ),
        (
            "Sort Cobb's Mill, Reed Mill and Low Mill by age from old to young.",
            "Cobb's Mill was built in 1820. Reed Mill was built in 1764. Low Mill was built in 1901.",
            "Reed Mill, Cobb's Mill, Low Mill",
        ),
    ),
    "aggregation": (
        (
            "How many windmills of Oxley Fen and ferries across the Halver are there in all?",
            "Cobb's Mill, Reed Mill and Low Mill make 3 windmills. The Gull and the Tern make 2 ferries. 3 + 2 = 5.",
            "5",
        ),
        (
            "What is the number of caves of Oxley Fen and of bridges over the Halver together?",
            "Dunn and Sorrel make 2 caves. Reed Bridge is the only bridge. 2 + 1 = 3.",
            "3",
        ),
    ),
    "subtraction": (
        (
            "How many more windmills has Oxley Fen than the Halver has ferries?",
            "Cobb's Mill, Reed Mill and Low Mill make 3 windmills. The Gull and the Tern make 2 ferries. 3 - 2 = 1.",
            "1",
        ),
        (
            "How many fewer bridges than ferries has the Halver?",
            "Reed Bridge is the only bridge. The Gull and the Tern make 2 ferries. 2 - 1 = 1.",
            "1",
        ),
    ),
}


def shots(scheme: str) -> str:
    """The scheme's examples, a blank line between them."""
    return "\n\n".join(
        f"{COT_PROMPT.format(question=question)} {thoughts}\nAnswer: {answer}"
        for question, thoughts, answer in _SHOTS[scheme]
    )
