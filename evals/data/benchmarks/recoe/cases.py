"""Cases of ReCoE's rows: edits of a setting, questions, and demonstrations.

The paper publishes no prompt for its chain-of-thought runs; the lines `Question:`, `Thoughts:` and
`Answer:` are taken from its printed examples (Figures 13 and 14), and demonstrated answers have the
form of the scheme's answers in the data.
"""

import tomllib
from functools import cache
from pathlib import Path

from emend.editors.base import Demonstration
from emend.evals.case import Case
from emend.evals.data.benchmarks.recoe.rows import CounterfactualRow, ReCoERow
from emend.evals.data.benchmarks.rows import COT_PROMPT, Tags, chain_fields
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData
from emend.memory.probe import Probe


def parse_triple(text: str) -> Triplet | None:
    """Parse a text like "(s; r; o)"; None if it does not have three parts.

    >>> parse_triple("(Dune (1965);  is by ; Herbert)").subject
    'Dune (1965)'
    """
    inner = text.strip()
    if inner.startswith("("):
        closed = inner.endswith(")") and inner.count("(") <= inner.count(")")
        inner = inner[1:-1] if closed else inner[1:]
    parts = [" ".join(part.split()) for part in inner.split(";")]
    if len(parts) != 3 or not all(parts):
        return None
    return Triplet(subject=parts[0], relation=parts[1], object=parts[2])


def triples_of(row: ReCoERow) -> list[Triplet]:
    """Return the complete triples of the row's counterfactuals."""
    parsed = (parse_triple(text) for fact in row.facts for text in fact.atomic_triples)
    return [triple for triple in parsed if triple is not None]


def edits_of(row: ReCoERow, setting: str) -> tuple[Edit, ...]:
    """Return the row's counterfactuals as distinct edits: `atomic` facts, whole `sentence`s, or
    `triple`s.
    """
    if setting == "triple":
        edits = [Edit.from_triplet(triple, f"{{}} {triple.relation}") for triple in triples_of(row)]
    elif setting == "sentence":
        edits = [Edit(form="document", text=_as_sentence(fact.sentence)) for fact in row.facts]
    else:
        edits = [Edit(form="facts", text=text) for text in atoms_of(row.facts)]
    return tuple({edit.id: edit for edit in edits}.values())


def atoms_of(facts: tuple[CounterfactualRow, ...]) -> tuple[str, ...]:
    """Return the distinct atomic facts as sentences; the whole sentence for a fact without atomic
    facts.
    """
    texts = (text for fact in facts for text in fact.atomic_facts or (fact.sentence,))
    return tuple(dict.fromkeys(map(_as_sentence, texts)))


def _as_sentence(text: str) -> str:
    # Prompts concatenate facts, and many lack a final full stop.
    if text.endswith((".", "!", "?")):
        return text
    return f"{text}."


@cache
def shots(scheme: str) -> str:
    """Return the scheme's demonstrations, separated by blank lines."""
    table = tomllib.loads(Path(__file__).with_name("shots.toml").read_text("utf-8"))
    return "\n\n".join(
        f"{COT_PROMPT.format(question=shot['question'])} {shot['thoughts']}\nAnswer: "
        f"{shot['answer']}"
        for shot in table[scheme]
    )


# Suffix of the kind of probes that measure the perplexity of a record's facts.
FACTS = "_facts"


def row_case(
    row: ReCoERow,
    scheme: str,
    setting: str,
    index: int,
    *,
    contested: bool = False,
    chain: bool = False,
    perplexity: bool = True,
) -> Case:
    """Return a row as a case: its counterfactuals as edits, its question with the counterfactual
    answer, and its facts.

    Args:
        row: the row.
        scheme: key of `ROWS`, used as the probe's kind.
        setting: `atomic`, `sentence` or `triple`.
        index: index of the row in the file.
        contested: True if another record edits a fact of this one to another object; adds a tag.
        chain: ask for a chain of thought instead of a direct answer.
        perplexity: also measure the perplexity of the facts.

    Raises:
        BadData: the setting is `triple` and the row has no triple.
    """
    edits = edits_of(row, setting)
    if not edits:
        triples = [text for fact in row.facts for text in fact.atomic_triples]
        raise BadData(
            f"{scheme}, record {index}, field 'atomic_triples': no '(subject; relation; object)' "
            f"there; value {triples}. Use --setting atomic or correct the record."
        )
    tags: Tags = {"contested": True} if contested else {}
    probes = [_question_probe(row, scheme, edits, chain, tags)]
    if perplexity and row.known:
        probes.append(_facts_probe(row, scheme, edits, tags))
    return Case(edits=edits, probes=tuple(probes), tags={"scheme": scheme, "record": index})


def _question_probe(
    row: ReCoERow, scheme: str, edits: tuple[Edit, ...], chain: bool, tags: Tags
) -> Probe:
    return Probe(
        kind=scheme,
        **chain_fields(row.asked, shots(scheme) if chain else ""),
        gold=row.golds,
        rival=row.answer,
        rival_aliases=row.originals[1:],
        edit_ids=tuple(edit.id for edit in edits),
        scorers=("correct_flip",),
        tags=tags | ({"shared_form": min(row.shared)} if row.shared else {}),
    )


def _facts_probe(row: ReCoERow, scheme: str, edits: tuple[Edit, ...], tags: Tags) -> Probe:
    """Return a probe with the counterfactual facts as gold and the replaced facts as choices; no
    text is generated.
    """
    return Probe(
        kind=f"{scheme}{FACTS}",
        prompt="",
        gold=atoms_of(row.facts),
        choices=atoms_of(row.known),
        edit_ids=tuple(edit.id for edit in edits),
        scorers=("effectiveness",),
        query=row.asked,
        tags=tags,
    )


def question_demonstrations(row: ReCoERow, setting: str) -> list[Demonstration]:
    """Return the row's question and the first counterfactual with a cloze; the data has no `retain`
    questions.

    The shown fact consists of all counterfactuals of the row, since its answer follows from all of
    them.
    """
    edits = edits_of(row, setting)
    text = " ".join(edit.text for edit in edits)
    question = Demonstration(
        kind="update", fact=text, prompt=row.asked, style="question", target=row.golds[0]
    )
    copied = next((edit for edit in edits if edit.cloze and edit.target_new), None)
    if copied is None:
        return [question]
    return [
        Demonstration(kind="copy", fact=text, prompt=copied.cloze, target=copied.target_new),
        question,
    ]
