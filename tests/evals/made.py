"""Run folders written by hand, so that a test decides every number."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from emend.evals.case import Metric, Record
from emend.evals.config.run_config import RunConfig
from emend.evals.log.lines import CASES, RECORDS
from emend.evals.log.manifest import MANIFEST, CaseList, Manifest

EM = Metric(name="EM", value="em", kinds=("efficacy", "paraphrase"), scale=100)


def record(case: str, editor: str = "rag", kind: str = "efficacy", probe: str = "p", **more: Any) -> Record:
    """A record of one probe; every field can be given."""
    result: dict[str, Any] = dict(
        case=case, editor=editor, kind=kind, probe=probe, model="m", setting="doc", mode="all"
    )
    result |= dict(prompt=f"{case} {probe}?", gold=("gold",), of=1) | more
    unit = "-".join(
        str(result.get(name, "")) for name in ("case", "editor", "probe", "setting", "repeat", "checkpoint")
    )
    return Record(**({"unit": unit} | result))


def write_run(
    folder: Path,
    records: Sequence[Record],
    benchmark: str = "docter",
    metrics: Sequence[Metric] = (EM,),
    cases: Iterable[dict[str, Any]] = (),
    model: str = "m",
    **config: Any,
) -> Path:
    """A finished run with these records; `cases` are lines of `cases.jsonl`."""
    editors = tuple(dict.fromkeys(item.editor for item in records)) or ("rag",)
    settings = tuple(dict.fromkeys(item.setting for item in records)) or ("doc",)
    folder.mkdir(parents=True)
    manifest = Manifest(
        config=RunConfig(benchmark=benchmark, editors=editors, settings=settings, model=model, **config),
        cases={name: CaseList(cases=1, probes=1, digest="x") for name in settings},
        model={"name": model},
        editors={},
        benchmark={"options": config.get("benchmark_options", {})},
        metrics=tuple(metrics),
        versions={},
        platform={},
        started="2026-01-01T00:00:00+00:00",
    )
    (folder / MANIFEST).write_text(manifest.model_dump_json(), encoding="utf-8")
    (folder / RECORDS).write_text("".join(item.model_dump_json() + "\n" for item in records), encoding="utf-8")
    (folder / CASES).write_text("".join(json.dumps(line) + "\n" for line in cases), encoding="utf-8")
    return folder


def case_line(case: str, setting: str = "doc", number: int = 1, **more: Any) -> dict[str, Any]:
    """A line of `cases.jsonl`, with tags and edits given."""
    return {"number": number, "setting": setting, "case": case, "tags": {}, "edits": []} | more
