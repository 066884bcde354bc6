"""Checks of weight edits as the run made them, what they warn of, and which editors broke their model."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from emend.evals.log.lines import BROKEN_RATIO, COSTS, EDIT_CHECK
from emend.evals.log.records import read_lines
from emend.evals.results.aggregate.columns import ResultGroup, order_by
from emend.evals.results.aggregate.perplexity import PerplexityRow
from emend.memory.edit import FrozenModel


class EditCheckRow(FrozenModel):
    """The edits of an editor that were checked and that took, their neighbouring prompts and those that turned."""

    setting: str
    mode: str
    editor: str
    checked: int
    took: int
    neighbours: int
    turned: int

    @property
    def place(self) -> ResultGroup:
        """The place whose figures the edits stand behind."""
        return ResultGroup(self.setting, self.mode, self.editor)


def edit_checks_of(folder: Path, editors: Sequence[str]) -> list[EditCheckRow]:
    """Row per editor, setting and mode, in the order of the editors; of two checks of the same edits the later one."""
    latest = {
        (ResultGroup(line["setting"], line["mode"], line["editor"]), line["repeat"], line["edits"]): line
        for line in read_lines(folder, COSTS)
        if line.get("act") == EDIT_CHECK
    }
    places = sorted({place for place, *_ in latest}, key=order_by(editors))
    return [
        EditCheckRow(
            **place._asdict(),
            **{
                name: sum(line[name] for (where, *_), line in latest.items() if where == place)
                for name in ("checked", "took", "neighbours", "turned")
            },
        )
        for place in places
    ]


def broken_places(perplexity: Sequence[PerplexityRow], checks: Sequence[EditCheckRow]) -> tuple[ResultGroup, ...]:
    """Where the perplexity more than doubled, or most neighbouring prompts turned to the new object."""
    worse = [row.place for row in perplexity if row.ratio is not None and row.ratio > BROKEN_RATIO]
    turned = [row.place for row in checks if 2 * row.turned > row.neighbours]
    return tuple(dict.fromkeys([*worse, *turned]))


def side_effect_notes(perplexity: Sequence[PerplexityRow], checks: Sequence[EditCheckRow]) -> Iterator[str]:
    """Sentences for what went wrong with edits, an editor and a fault each."""
    several = len({row.place.setting for row in perplexity} | {row.place.setting for row in checks}) > 1
    last = {row.place: row for row in perplexity if row.ratio is not None and row.ratio > BROKEN_RATIO}
    for place, row in last.items():
        after = "no finite number" if row.mean is None else f"{row.mean:,.4g}"
        change = f"perplexity more than doubled, {row.before.mean:,.4g} to {after}"
        yield _sentence(place, several, f"{change}: no best mark")
    for check in checks:
        if check.took < check.checked:
            yield _sentence(check.place, several, f"{check.checked - check.took} of {check.checked} edits did not take")
        if check.turned:
            mark = ": no best mark" if 2 * check.turned > check.neighbours else ""
            counts = f"{check.turned} of {check.neighbours} neighbouring prompts"
            yield _sentence(check.place, several, f"{counts} turned to the new object{mark}")


def _sentence(place: ResultGroup, several: bool, text: str) -> str:
    return f"{place.editor}{f', {place.setting}' if several else ''}: {text}"
