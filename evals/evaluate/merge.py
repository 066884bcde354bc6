"""Merge of a run's shares into one run folder, independent of how the run was divided."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter

from emend.agents.providers.usage import ProviderUsage
from emend.evals.evaluate.shares import LineSpan, ShareFolder, SharePlan, lines_of, open_shares
from emend.evals.log.baseline import BaselineAnswer
from emend.evals.log.folder import LOCK, owned_folder
from emend.evals.log.lines import BASELINE, CASES, COSTS, ERRORS, EVENTS, RECORDS, parser_of
from emend.evals.log.manifest import Manifest, MergedShare
from emend.evals.log.records import AppendLog, json_line
from emend.memory.edit import FrozenModel, content_id
from emend.memory.errors import BadSettings, RunRefused
from emend.memory.files import open_file


def merge_notes(manifest: Manifest, is_finished: bool = False) -> tuple[str, ...]:
    """Return notes for readers of a merged run; empty for a run that was not merged.

    Args:
        manifest: manifest of the merged run.
        is_finished: True if units missing from the shares were evaluated after the merge.
    """
    return tuple(_earlier_notes(manifest, is_finished)) if manifest.merged else ()


def _earlier_notes(manifest: Manifest, is_finished: bool) -> Iterator[str]:
    there = [each.number for each in manifest.merged]
    missing = sorted(set(range(1, manifest.shares + 1)).difference(there))
    rest = f"; missing: {_list(missing)}"
    if is_finished:
        rest = "; other units were evaluated afterwards"
    yield f"merged from {len(there)} of {manifest.shares} shares" + (rest if missing else "")
    for part in manifest.merged:
        if not is_finished and (unfinished := part.units - part.finished - part.failed):
            yield (
                f"share {part.number} was merged with {unfinished} of {part.units} units unfinished"
            )
    for name in ("versions", "platform", "git"):
        yield from _differences(manifest, name)
    if manifest.mode == "all" and len(there) > 1:
        yield (
            f"each share applied all edits: editing costs and times include this {len(there)} times"
        )


def _differences(manifest: Manifest, name: str) -> Iterator[str]:
    """Yield a line per field in which shares differ, with each value and its shares."""
    kind = "" if name == "versions" else f"{name} "
    fields = {each.number: dict(getattr(each, name) or {}) for each in manifest.merged}
    for field in sorted({field for values in fields.values() for field in values}):
        shares: dict[str, list[int]] = {}
        for number, values in fields.items():
            shares.setdefault(str(values.get(field, "none")), []).append(number)
        if len(shares) > 1:
            values_shown = (f"{value} (share {_list(on)})" for value, on in shares.items())
            yield f"shares differ in {kind}{field}: " + ", ".join(values_shown)


def _list(numbers: Sequence[Any]) -> str:
    rest = f" and {len(numbers) - 10} more" if len(numbers) > 10 else ""
    return ", ".join(map(str, numbers[:10])) + rest


FILES = (CASES, RECORDS, EVENTS, ERRORS, BASELINE, COSTS)
# Number of bytes written at once.
BLOCK = 4 * 2**20


class Merged(FrozenModel):
    """Result of a merge: counts, missing shares, and notes for readers."""

    folder: str
    shares: int
    missing: tuple[int, ...]
    units: int
    finished: int
    failed: int
    notes: tuple[str, ...]


def merge(
    folders: Sequence[Path], out: Path, partial: bool = False, any_versions: bool = False
) -> Merged:
    """Merge the folders of a run's shares into one run folder; the shares are only read.

    Args:
        folders: folders of the shares, in any order.
        out: new or empty folder.
        partial: accept that shares are missing or unfinished; `emend resume` evaluates the rest.
        any_versions: accept that shares were evaluated with other versions of packages.

    Raises:
        BadSettings: the folders are not shares of one run, shares are missing or unfinished without
            `partial`, or their versions differ without `any_versions`.
        BadData: a file of a share is damaged, or has a unit that is not of this run or comes twice.
        RunRefused: `out` holds files already, or cannot be written.
    """
    shares = open_shares(folders, any_versions)
    if not shares:
        raise BadSettings("no share is given: name the folders that `emend run --share I/N` made.")
    plan = SharePlan.of(shares[0].path, shares[0].manifest)
    missing = tuple(
        sorted(set(range(1, shares[0].part.of + 1)) - {share.part.number for share in shares})
    )
    unit_keys = set[str]()
    for share in shares:
        share.index(plan, unit_keys)
    if not partial:
        _refuse_incomplete(shares, missing)
    with owned_folder(out, drafts=FILES):
        _clear(out)
        with AppendLog(out, FILES, "Make room, or give another --out.") as log:
            differing = _write_files(shares, log)
        manifest = _manifest(shares, plan)
        manifest.write(out)
    return Merged(
        folder=str(out),
        shares=len(shares),
        missing=missing,
        units=manifest.units,
        finished=sum(each.finished for each in manifest.merged),
        failed=sum(each.failed for each in manifest.merged),
        notes=(*_notes(shares, differing), *merge_notes(manifest)),
    )


def _refuse_incomplete(shares: Sequence[ShareFolder], missing: Sequence[int]) -> None:
    if missing:
        raise BadSettings(
            f"missing shares: {', '.join(map(str, missing[:10]))} (of {shares[0].part.of}). Name "
            "their folders too, or merge the present shares with --partial."
        )
    for share in shares:
        if share.unfinished:
            raise BadSettings(
                f"'{share.path}' lacks {share.unfinished} of {share.part.units} units: finish it "
                f"with `emend resume {share.path}`, or merge the present shares with --partial."
            )


def _clear(out: Path) -> None:
    """Remove the files of an interrupted merge, which has no manifest.

    Raises:
        RunRefused: the folder contains other files.
    """
    names = {path.name for path in out.iterdir()} - {LOCK}
    if others := sorted(names - set(FILES)):
        raise RunRefused(
            f"'{out}' contains other files ({', '.join(others[:3])}): give a new --out folder."
        )
    for name in names:
        (out / name).unlink()


def _write_files(shares: Sequence[ShareFolder], log: AppendLog) -> int:
    """Write all files except the manifest, and return the number of baseline conflicts."""
    _copy(log, CASES, shares[:1], [(0, LineSpan(0, (shares[0].path / CASES).stat().st_size))])
    units = sorted(
        (position, number, unit)
        for number, share in enumerate(shares)
        for unit, (position, _) in share.units.items()
    )
    _copy(
        log, RECORDS, shares, ((number, shares[number].units[unit][1]) for _, number, unit in units)
    )
    log.append({EVENTS: b"".join(_with_share(shares, EVENTS))})
    spans = (
        (number, span) for _, number, unit in units for span in shares[number].events.get(unit, ())
    )
    _copy(log, EVENTS, shares, spans)
    for name in (ERRORS, COSTS):
        for line in _with_share(shares, name):
            log.append({name: line})
    answers, differing = _baseline(shares)
    _copy(log, BASELINE, shares, answers)
    return differing


def _with_share(shares: Sequence[ShareFolder], name: str) -> Iterator[bytes]:
    """Yield the lines of a file that get their share's number, instead of being copied."""
    for share in shares:
        for line in lines_of(share.path, name):
            if name != EVENTS or "unit" not in line.fields:
                yield json_line(line.fields | {"share": share.part.number})


def _copy(
    log: AppendLog, name: str, shares: Sequence[ShareFolder], spans: Iterable[tuple[int, LineSpan]]
) -> None:
    """Append lines of the shares' files; each span comes with the index of its share."""
    with ExitStack() as stack:
        files: dict[int, BinaryIO] = {}
        block = bytearray()
        for number, (start, end) in spans:
            if number not in files:
                files[number] = stack.enter_context(open_file(shares[number].path / name))
            files[number].seek(start)
            block += files[number].read(end - start)
            if len(block) >= BLOCK:
                log.append({name: bytes(block)})
                block.clear()
        log.append({name: bytes(block)})


_parse_answer = parser_of(TypeAdapter(BaselineAnswer))


def _baseline(shares: Sequence[ShareFolder]) -> tuple[list[tuple[int, LineSpan]], int]:
    """Return one baseline answer per key, and the number of conflicts between shares."""
    answers: dict[str, tuple[str, int, LineSpan]] = {}
    differing = 0
    for number, share in enumerate(shares):
        for line in lines_of(share.path, BASELINE, _parse_answer):
            key, content = line.fields.key, _content(line.fields)
            first = answers.setdefault(key, (content, number, LineSpan(line.offset, line.end)))
            differing += first[0] != content
    return [(number, span) for _, (_, number, span) in sorted(answers.items())], differing


def _content(line: BaselineAnswer) -> str:
    """Return a digest of an answer's texts, without its time and log-probabilities."""
    answer = line.answer
    return content_id(line.error, line.reply, answer and (answer.text, answer.reply))


def _manifest(shares: Sequence[ShareFolder], plan: SharePlan) -> Manifest:
    spent: dict[str, ProviderUsage] = {}
    for share in shares:
        for model, usage in share.manifest.spent.items():
            spent[model] = spent.get(model, ProviderUsage()).plus(usage)
    parts = [
        MergedShare(
            **share.manifest.model_dump(
                include={"versions", "git", "platform", "started", "spent"}
            ),
            number=share.part.number,
            units=share.part.units,
            finished=len(share.units),
            failed=len(share.failed),
        )
        for share in shares
    ]
    return plan.manifest.model_copy(
        update={
            "config": plan.manifest.config.model_copy(update={"share": None}),
            "started": min(part.started for part in parts),
            "spent": spent,
            "share": None,
            "shares": shares[0].part.of,
            "merged": tuple(parts),
        }
    )


def _notes(shares: Sequence[ShareFolder], differing: int) -> Iterator[str]:
    """Yield notes on problems in the shares' files."""
    if differing:
        yield (
            f"{differing} answers of the unedited model differ between shares: baseline.jsonl has "
            "those of the first share"
        )
    if failed := sum(len(share.failed) for share in shares):
        yield f"{failed} units failed (errors.jsonl): `emend resume` retries them"
