"""A judge's stress test for eyes: what it made of each text, and which orders hold."""

from collections import Counter

from rich.console import Console
from rich.text import Text

from emend.evals.judging.stress import Outcome, Relation, StressReport, StressRow
from emend.evals.show.report.tables.layout import frame
from emend.memory.escape import one_line

STYLES: dict[Outcome, str] = {"holds": "green", "broken": "bold red", "unscored": "yellow"}


def show_stress(report: StressReport, console: Console) -> None:
    """Print it, one table of texts and one of relations over all kinds of judges."""
    kinds = list(dict.fromkeys(row.kind for row in report.rows))
    outputs = {row.kind: row.output for row in report.rows}
    console.print(Text(one_line(f"judge {report.judge}: texts that want to speak for it"), style="bold"))
    table = frame("text", *[f"{kind}\n{outputs[kind].replace('_', ' ')}" for kind in kinds])
    values = {(row.variant, row.kind): row for row in report.rows}
    for variant, about in dict.fromkeys((row.variant, row.about) for row in report.rows):
        cells = [_cell(values.get((variant, kind))) for kind in kinds]
        table.add_row(Text(variant).append(f"  {about}", style="dim"), *cells)
    console.print(table)
    console.print(Text("what must hold", style="bold"))
    rules = frame("relation", *kinds)
    notes = {(_name(item), item.kind): Text(item.outcome, style=STYLES[item.outcome]) for item in report.relations}
    for name in dict.fromkeys(map(_name, report.relations)):
        rules.add_row(Text(name), *[notes.get((name, kind), Text()) for kind in kinds])
    console.print(rules)
    for note in _notes(report):
        console.print(Text(note, style="dim"))


def _name(relation: Relation) -> str:
    sign = {"about": "is about"}.get(relation.op, relation.op)
    return f"{relation.left} {sign} {relation.right}"


def _cell(row: StressRow | None) -> Text:
    if row is None or row.value is None:
        return Text("-", style="yellow")
    return Text(f"{row.value:.2f}".removesuffix("0").removesuffix(".0"))


def _notes(report: StressReport) -> list[str]:
    counts = Counter(item.outcome for item in report.relations)
    notes = [", ".join(f"{outcome}: {counts[outcome]}" for outcome in STYLES)]
    notes.append("about: at most 1 apart in marks, 0.5 in shares, nothing in yes (1) or no (0)")
    reasons = Counter(row.why for row in report.rows if row.value is None)
    notes += [f"unscored {count} times: {one_line(why, 160)}" for why, count in reasons.most_common(5)]
    return notes
