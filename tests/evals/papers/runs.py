"""Run folders written by hand, so that every number in them is known."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emend.evals.case import Metric, Record
from emend.evals.config.run_config import RunConfig
from emend.evals.log.lines import RECORDS
from emend.evals.log.manifest import CaseList, Manifest

Scores = Mapping[tuple[str, str], Sequence[float]]
"""By editor and kind of probe: a value per record."""


def write_run(
    folder: Path,
    benchmark: str,
    metrics: Sequence[Metric],
    scores: Mapping[str, Scores],
    mode: str = "all",
    options: Mapping[str, str] | None = None,
    editors: Mapping[str, str] | None = None,
    provenance: Mapping[str, Any] | None = None,
    unscored: Mapping[str, str] | None = None,
    **config: Any,
) -> Path:
    """A finished run with these scores by setting; a metric's value is named after its kind.

    `unscored` are kinds of which each editor has one record without a value, and the reason.
    """
    names = tuple(dict.fromkeys(editor for told in scores.values() for editor, _ in told))
    manifest = Manifest(
        config=RunConfig(benchmark=benchmark, editors=names, settings=tuple(scores), mode=mode, **config),
        cases={setting: CaseList(cases=1, probes=1, digest="0") for setting in scores},
        model={},
        editors={setting: {name: {"editor": (editors or {}).get(name, name)} for name in names} for setting in scores},
        benchmark={"options": dict(options or {})} | dict(provenance or {}),
        metrics=tuple(metrics),
        versions={},
        platform={},
        started="2026-01-01T00:00:00+00:00",
    )
    folder.mkdir(parents=True)
    manifest.write(folder)
    lines = []
    for setting, told in scores.items():
        for (editor, kind), values in told.items():
            for place, value in enumerate(values):
                lines.append(_record(setting, mode, editor, kind, place, values={kind: value}))
        for kind, reason in (unscored or {}).items():
            lines += [_record(setting, mode, editor, kind, 0, unscored={kind: reason}) for editor in names]
    (folder / RECORDS).write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    return folder


def _record(setting: str, mode: str, editor: str, kind: str, place: int, **told: Any) -> str:
    unit = json.dumps([setting, editor, kind, place])
    return Record(
        unit=unit, of=1, case=str(place), probe=kind, kind=kind, editor=editor, model="m", setting=setting,
        mode=mode, prompt="?", gold=("g",), **told,
    ).model_dump_json()  # fmt: skip


def percent(*names: str) -> list[Metric]:
    """Metrics in percent, each over the kind of its own name."""
    return [Metric(name=name, value=name, kinds=(name,), scale=100) for name in names]


MQUAKE = {"dataset": "mquake_cf", "ask": "cloze"}
EDITED = percent("EditAcc", "EditAcc distinct", "EditAcc clean", "MultiHop")


def akew_run(folder: Path, mode: str = "single", **more: Any) -> Path:
    scores = {
        ("unedited", "EditAcc"): [0.0, 0.0],
        ("ike", "EditAcc"): [1.0, 1.0, 1.0, 0.0],
        ("ike", "EditAcc distinct"): [1.0, 0.0],
        ("ft", "EditAcc"): [0.0, 1.0],
        ("ft", "MultiHop"): [0.0, 1.0],
    }
    return write_run(folder / "run", "akew", EDITED, {"struct": scores}, mode=mode, **{"options": MQUAKE} | more)
