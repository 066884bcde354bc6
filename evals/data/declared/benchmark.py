"""A benchmark that is declared in a YAML file, with one case for each row of a data file."""

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from emend.editors.base import Demonstration
from emend.evals.case import Case, Metric
from emend.evals.data.benchmarks.base import check_request, known_options
from emend.evals.data.benchmarks.rows import sha256
from emend.evals.data.declared.description import (
    DescriptionFile,
    EditTemplate,
    ProbeTemplate,
    RepeatedTemplate,
    read_description,
)
from emend.evals.data.declared.rows import DataRow, Fields, read_data
from emend.evals.data.declared.templates import fill, fill_all, has_value, value_of
from emend.evals.metrics.protocols import described, is_foreign, label_of, protocol_of_scorer
from emend.evals.metrics.scoring.registry import check_scorers, is_own, scorer_of
from emend.memory.edit import Edit, Triplet
from emend.memory.errors import BadData, BadSettings, MissingData, path_remedy
from emend.memory.probe import Probe

# Template field for the current item of the list named by `for_each`.
ITEM = "item"


class DeclaredCheck(NamedTuple):
    """Numbers of rows and probes, and the faults found."""

    cases: int
    probes: int
    faults: tuple[str, ...]


class DeclaredBenchmark:
    """Cases of a declared benchmark, in the order of its rows; a limit takes a seeded sample.

    Args:
        path: the YAML file.
        data: must be None, since the YAML file names the data file.
        options: must be empty.

    Raises:
        BadSettings: an option or a data folder is given.
        MissingData: the file with the rows is absent.
        BadData: the file or a row is malformed; the error names file and line, or field.
    """

    def __init__(
        self, path: str, data: Path | None = None, options: Mapping[str, str] | None = None
    ) -> None:
        known_options(path, options, ())
        if data is not None:
            raise BadSettings(
                f"--data cannot be used with '{path}', which names its own rows: leave --data out."
            )
        self._file: DescriptionFile = read_description(path)
        self._description = self._file.description
        self.name = self._description.name or self._file.path.stem
        self.wording, self.mode = self._description.wording, self._description.mode
        self.settings = (self._description.edit_templates[0].form,)

    @cached_property
    def data_file(self) -> Path:
        """File with the rows, beside the description or in a folder below it.

        Raises:
            BadData: the file is elsewhere; otherwise a downloaded description could read any file
                of this machine.
            MissingData: the file is absent.
        """
        folder = self._file.path.parent.resolve()
        position = self._file.position("rows")
        if "\0" in self._description.rows:
            raise BadData(f"{position}: a NUL is in no file's name: correct the path.")
        path = (folder / self._description.rows).resolve()
        if not path.is_relative_to(folder):
            raise BadData(
                f"{position}: '{self._description.rows}' is outside '{folder}': put it "
                "beside the file."
            )
        if not path.is_file():
            raise MissingData(f"{position}: the file '{path}' does not exist: {path_remedy(path)}")
        return path

    @cached_property
    def _rows(self) -> list[DataRow]:
        return read_data(self.data_file)

    def cases(self, setting: str, limit: int | None = None, seed: int = 0) -> Iterator[Case]:
        """Yield one case per row.

        Raises:
            BadSettings: the setting is unknown, or the limit is below 1.
            BadData: a template names a field that a row lacks, or gives no valid edit or probe.
        """
        check_request(self.name, setting, self.settings, limit)
        count = len(self._rows)
        chosen = sorted(random.Random(seed).sample(range(count), min(count, limit or count)))
        return (self._case(self._rows[number]) for number in chosen)

    def check(self) -> DeclaredCheck:
        """Create every case, and check that its scorers exist and that row ids are unique."""
        faults, ids, probes = list[str](), dict[str, str](), 0
        for row in self._rows:
            try:
                case = self._case(row)
            except BadData as error:
                faults.append(str(error))
                continue
            probes += len(case.probes)
            if (first := ids.setdefault(case.id, row.position)) != row.position:
                faults.append(f"{row.position}: the same id, or the same case, as in {first}")
        for kind, template in self._description.probes.items():
            try:  # scorers of others are code, which is not imported here
                check_scorers(name for name in template.scorers if ":" not in name or is_own(name))
            except BadSettings as error:
                faults.append(f"{self._file.position('probes', kind, 'scorers')}: {error}")
        return DeclaredCheck(len(self._rows), probes, tuple(faults))

    def _case(self, row: DataRow) -> Case:
        edits = tuple(self._edits(row))
        if not edits:
            raise BadData(
                f"{row.position}: no edit can be made from this row: see "
                f"{self._file.position('edit')}."
            )
        ids = tuple(edit.id for edit in edits)
        probes = tuple(self._probes(row, ids))
        return Case(id=_case_id(row.fields), edits=edits, probes=probes)

    def _edits(self, row: DataRow) -> Iterator[Edit]:
        templates = self._description.edit_templates
        for number, template in enumerate(templates):
            is_first = number == 0 and self._description.edit is not None
            key = (
                ("edit",) if is_first else ("edits", number - (self._description.edit is not None))
            )
            for fields in self._repeated(template, row, *key):
                yield self._made(row, key, _edit, template, fields)

    def _probes(self, row: DataRow, edit_ids: tuple[str, ...]) -> Iterator[Probe]:
        for kind, template in self._description.probes.items():
            for fields in self._repeated(template, row, "probes", kind):
                probe = self._made(row, ("probes", kind), _probe, kind, template, fields)
                yield (
                    probe.model_copy(update={"edit_ids": edit_ids}) if template.in_scope else probe
                )

    def _repeated(
        self, template: RepeatedTemplate, row: DataRow, *key: str | int
    ) -> Iterator[Fields]:
        """Yield the fields of the row, once for each item of a list, together with the item."""
        if template.only_with and not has_value(template.only_with, row.fields):
            return
        if not template.for_each:
            yield row.fields
            return
        items = self._made(row, (*key, "for_each"), value_of, template.for_each, row.fields)
        if not isinstance(items, list):
            position = self._file.position(*key, "for_each")
            raise BadData(f"{row.position}: '{template.for_each}' is not a list ({position}).")
        for item in items:
            yield row.fields | {ITEM: item}

    def _made(self, row: DataRow, key: tuple[str | int, ...], make: Any, *arguments: Any) -> Any:
        """Call a function with templates and fields; add the row and the template's line to its
        errors.
        """
        try:
            return make(*arguments)
        except (BadData, ValueError) as error:
            reason = " ".join(str(error).split())[:300]
            raise BadData(f"{row.position}: {reason} ({self._file.position(*key)}).") from error

    def metrics(self) -> Sequence[Metric]:
        """Return the metrics of the file; by default one for each kind and each output of its
        scorers.
        """
        if self._description.metrics:
            return [self._metric(**entry.model_dump()) for entry in self._description.metrics]
        metrics: dict[str, Metric] = {}
        for kind, template in self._description.probes.items():
            for name in template.scorers:
                for output in scorer_of(name).outputs:
                    if kind not in metrics:
                        title = kind
                    else:
                        title = f"{kind} {output.name}"
                    metrics.setdefault(title, self._metric(title, output.name, (kind,)))
        return list(metrics.values())

    def _metric(self, name: str, value: str, kinds: tuple[str, ...], **fields: Any) -> Metric:
        """Return the metric of an output, with the direction and the unit that its scorer
        defines.
        """
        scorers = dict.fromkeys(
            name for template in self._description.probes.values() for name in template.scorers
        )
        for scorer in scorers:
            for output in scorer_of(scorer).outputs:
                if output.name == value:
                    protocol = protocol_of_scorer(scorer)
                    fields |= described(output)
                    fields["summary"] = fields.get("summary") or output.summary
                    fields["is_right"] = is_foreign(protocol) and output.is_right
                    fields["protocol"] = label_of(protocol) if fields["is_right"] else ""
        return Metric(name=name, value=value, kinds=kinds, published=False, **fields)

    def demonstrations(self, setting: str, seed: int = 0) -> Sequence[Demonstration]:
        """Return no demonstrations, since it is unknown which facts are not tested."""
        return ()

    @property
    def foreign_scorers(self) -> list[str]:
        """Names of scorers that are code, which the user has to name too."""
        templates = self._description.probes.values()
        names = dict.fromkeys(name for template in templates for name in template.scorers)
        return [name for name in names if ":" in name and not is_own(name)]

    @property
    def provenance(self) -> dict[str, Any]:
        """The two files with their sha256, and the number of rows."""
        files = {
            self._file.path.name: {"sha256": sha256(self._file.path)},
            self._description.rows: {"sha256": sha256(self.data_file), "records": len(self._rows)},
        }
        return {"source": self._description.source, "files": files}


def _case_id(fields: Fields) -> str:
    """Return the row's own id; "" if it has none, for an id derived from the content."""
    value = fields.get("id")
    if isinstance(value, str | int) and not isinstance(value, bool):
        return str(value)
    return ""


def _edit(template: EditTemplate, fields: Fields) -> Edit:
    texts = template.model_dump(exclude={"for_each", "only_with", "form", "relation", "time"})
    filled = {name: fill(text, fields) for name, text in texts.items()}
    triplets: tuple[Triplet, ...] = ()
    if template.relation:
        relation = fill(template.relation, fields)
        triplets = (
            Triplet(subject=filled["subject"], relation=relation, object=filled["target_new"]),
        )
    time = fill(template.time, fields) or None
    return Edit(form=template.form, triplets=triplets, time=time, **filled)


def _probe(kind: str, template: ProbeTemplate, fields: Fields) -> Probe:
    rival = fill(template.rival, fields)
    gold = _texts(template.gold, fields)
    if not gold or not gold[0].strip():
        raise BadData(f"the gold answer of '{kind}' is empty")
    return Probe(
        kind=kind,
        prompt=fill(template.prompt, fields),
        gold=gold,
        rival=rival or None,
        choices=_texts(template.choices, fields),
        query=fill(template.query, fields),
        subject=fill(template.subject, fields),
        **template.model_dump(
            include={"style", "reading", "scorers", "in_scope", "all_golds", "new_tokens"}
        ),
    )


def _texts(templates: str | tuple[str, ...], fields: Fields) -> tuple[str, ...]:
    texts: list[str] = []
    for template in (templates,) if isinstance(templates, str) else templates:
        texts += fill_all(template, fields)
    return tuple(texts)
