"""Wikidata dumps whose lines are deep, endless, cyclic or of other types, and archives that end in the middle."""

import bz2
import gzip
import json
import random
import tracemalloc
from collections.abc import Iterator
from datetime import date
from functools import partial
from itertools import cycle, islice
from pathlib import Path
from typing import Any

from emend.evals.construction.wikidata.dump import read_updates
from emend.evals.data.facts.relation_tables import Relations
from scripts.nightly.spoiling import Case
from tests.evals.construction.wikidata.entities import dump_of, entity, snak, statement, time_value

MAX_BYTES = 1 << 30
CLAIMS = [statement("P6", "Q10", "2019-07-24", "2022-10-25"), statement("P6", "Q30", "2022-10-25")]
OBJECTS = (entity("Q10", "Ann"), entity("Q30", "Bea"))
TIMES = (
    "+0000-00-00T00:00:00Z", "-0044-03-15T00:00:00Z", "+1000000000-01-01T00:00:00Z", "+2022-13-45T00:00:00Z",
    "2022-10-25", "+2022-10-25T99:99:99Z", "", "+", "+" + "9" * 5000 + "-01-01T00:00:00Z", "+2022-02-30T00:00:00Z",
    "+\u0662\u0660\u0662\u0662-10-25T00:00:00Z", 2022, None, ["+2022"], {"time": "+2022"},
)  # fmt: skip


def odd_dumps(root: Path, count: int, rng: random.Random) -> Iterator[Case]:
    """Yield readings of dumps; odd items are left out, and whole ones beside them are found."""
    lines, packed = odd_lines(), archives(dump_of(entity("Q1", "Land", CLAIMS), *OBJECTS))
    names = [*lines, *packed]
    for number, name in enumerate(islice(cycle(names), count)):
        (folder := root / str(number)).mkdir()
        file = folder / ("dump.json" if name in lines else name)
        more = lines.get(name, [])
        file.write_bytes(packed.get(name) or dump_of(entity("Q1", "Land", CLAIMS), *more, *OBJECTS))
        yield f"{name} {number}", partial(read_odd, file, folder / "state.sqlite", name in lines)


def read_odd(file: Path, state: Path, whole: bool) -> None:
    """Read a dump in bounded memory; the change of an item that is whole is found."""
    tracemalloc.start()
    try:
        updates = list(read_updates(file, date(2021, 4, 1), Relations.read(), workers=1, state=state))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < MAX_BYTES, f"{peak >> 20} MiB of memory"
    found = [(update.subject_id, update.old_id, update.new_id) for update in updates]
    assert found.count(("Q1", "Q10", "Q30")) == 1 or not whole, f"the whole item gave {found[:3]}"
    assert len(found) == len(set(found)), "a change is there twice"


def with_claims(claims: Any, **more: Any) -> list[Any]:
    """Return an item with these statements of P6, of any type, as the lines of a dump."""
    return [entity("Q2", "Odd") | {"claims": {"P6": claims}} | more]


def changed_claim(path: tuple[str, ...], value: Any) -> list[Any]:
    """Return an item whose first statement has another value at a path."""
    first = json.loads(json.dumps(CLAIMS[0]))
    part = first
    for name in path[:-1]:
        part = part[name] if not name.isdigit() else part[int(name)]
    part[path[-1]] = value
    return with_claims([first, CLAIMS[1]])


def odd_lines() -> dict[str, list[Any]]:
    """Return further lines of a dump by name."""
    deep: list[bytes] = [b'{"id":"Q2","claims":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_001]
    lines: dict[str, list[Any]] = {
        "nested": deep,
        "nested P6": [b'{"id":"Q2","claims":{"P6":' + b"[" * 100_000 + b"]" * 100_000 + b"}}"],
        "endless line": [b'{"id":"Q2","claims":{"P6":"' + b"x" * 200_000_000],
        "endless id": [b'{"id":"' + b"Q" * 50_000_000 + b'"}'],
        "redirects in a circle": [{"type": "item", "id": f"Q{n}", "redirects": {"from": f"Q{n}", "to": f"Q{5 - n}"}}
                                  for n in (2, 3)],
        "item twice": [entity("Q1", "Land", CLAIMS)],
        "id of another type": with_claims(CLAIMS, id=7), "id of a property": with_claims(CLAIMS, id="P6"),
        "id of 5000 digits": with_claims(CLAIMS, id="Q" + "9" * 5000),
        "id with a path": with_claims(CLAIMS, id="../../Q1"),
        "labels as list": with_claims(CLAIMS, labels=[1]), "labels as text": with_claims(CLAIMS, labels="Land"),
        "label of a number": with_claims(CLAIMS, labels={"en": {"language": "en", "value": 7}}),
        "label with controls": with_claims(CLAIMS, labels={"en": {"language": "en", "value": "\x1b[2J\u202e"}}),
        "half a surrogate": [json.dumps(entity("Q2", "\ud800", CLAIMS)).encode()],
        "aliases as text": with_claims(CLAIMS, aliases="x"), "links as list": with_claims(CLAIMS, sitelinks=["x"]),
        "no statements": with_claims([]), "statements as text": with_claims("x"), "null": with_claims(None),
        "statement null": with_claims([None, CLAIMS[1]]), "statement empty": with_claims([{}, CLAIMS[1]]),
        "no main snak": with_claims([{"type": "statement", "rank": "normal"}, CLAIMS[1]]),
        "main snak null": changed_claim(("mainsnak",), None), "rank of a number": changed_claim(("rank",), 7),
        "rank unknown": changed_claim(("rank",), "best"),
        "no data value": changed_claim(("mainsnak", "datavalue"), None),
        "value of text": changed_claim(("mainsnak", "datavalue"), {"value": "Ann", "type": "string"}),
        "id of the value": changed_claim(("mainsnak", "datavalue", "value", "id"), ["Q10"]),
        "value is itself": with_claims([statement("P6", "Q2", "2019-07-24", "2022-10-25"), CLAIMS[1]]),
        "qualifiers as list": changed_claim(("qualifiers",), []),
        "qualifiers null": changed_claim(("qualifiers",), None),
        "snaks of a qualifier": changed_claim(("qualifiers",), {"P580": {}}),
        "20,000 qualifiers": changed_claim(("qualifiers",), {"P580": [snak("P580", "2019")] * 20_000}),
        "references as text": changed_claim(("references",), "x"),
        "in a circle": with_claims([statement("P6", f"Q{n}", "2022-10-25", "2022-10-25") for n in (10, 30, 10, 30)]),
        "100,000 replacements": with_claims([statement("P6", f"Q{n}", "2022-10-25") for n in range(10, 3_000)]),
    }  # fmt: skip
    for time in TIMES:
        value = time_value("2019-07-24") | {"time": time}
        lines[f"time {str(time)[:30]!r}"] = changed_claim(("qualifiers", "P580"), [snak("P580", value)])
    for precision in (-1, 0, 14, 10**30, "11", None, True):
        value = time_value("2019-07-24") | {"precision": precision}
        lines[f"precision {precision!r:.20}"] = changed_claim(("qualifiers", "P580"), [snak("P580", value)])
    return lines


def archives(whole: bytes) -> dict[str, bytes]:
    """Return compressed forms of a dump that are damaged, by file name."""
    half = len(whole) // 2
    first, second = gzip.compress(whole[:half]), gzip.compress(whole[half:])
    blocks = bz2.compress(whole[:half]) + bz2.compress(whole[half:])
    return {
        "second-cut.json.gz": first + second[: len(second) // 2],
        "between.json.gz": first + b"\0" * 512 + second,
        "other-length.json.gz": first + second[:-4] + b"\xff" * 4,
        "header-alone.json.gz": first[:10],
        "flags.json.gz": first[:3] + b"\xff" + first[4:],
        "second-cut.json.bz2": blocks[: -len(blocks) // 4],
        "header-alone.json.bz2": b"BZh9",
        "level.json.bz2": b"BZh0" + blocks[4:],
        "bomb-of-bombs.json.bz2": bz2.compress(bz2.compress(bytes(100_000_000))),
        "line-bomb.json.bz2": bz2.compress(b'[\n{"id":"Q2' + b" " * 400_000_000),
        "line-bomb.json.gz": gzip.compress(b'[\n{"id":"Q2' + b"9" * 400_000_000, 1),
        "twice.json.gz": gzip.compress(whole) * 2,
    }
