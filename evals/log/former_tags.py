"""Conversion of records and cases of earlier versions, whose tags hold what has its own field
today.
"""

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter, ValidationError

from emend.evals.case import Record
from emend.memory.errors import BadData

# Tags of records: statements of a rubric, one per line; the name of a criterion; and, also of
# cases, the accepted answers of each hop as JSON.
RUBRIC, CRITERION, HOP_GOLDS = "rubric", "criterion", "hop_golds"
_FORMER = frozenset((RUBRIC, CRITERION, HOP_GOLDS))
_HOPS: TypeAdapter[tuple[tuple[str, ...], ...]] = TypeAdapter(tuple[tuple[str, ...], ...])


def convert_tags(record: Record, where: str) -> Record:
    """Return the record with its former tags as fields; one without such tags is unchanged.

    Raises:
        BadData: the answers of the hops are malformed; names `where` and the tag.
    """
    if _FORMER.isdisjoint(record.tags):
        return record
    tags = {name: value for name, value in record.tags.items() if name not in _FORMER}
    fields: dict[str, Any] = {"tags": tags}
    if RUBRIC in record.tags:
        fields["rubric"] = tuple(str(record.tags[RUBRIC]).splitlines())
    if CRITERION in record.tags:
        fields["criterion"] = str(record.tags[CRITERION])
    if HOP_GOLDS in record.tags:
        fields["hop_golds"] = _hop_golds(record.tags[HOP_GOLDS], where)
    return record.model_copy(update=fields)


def _hop_golds(text: object, where: str) -> tuple[tuple[str, ...], ...]:
    try:
        return _HOPS.validate_json(str(text))
    except ValidationError as error:
        raise BadData(
            f"{where}, field tags.{HOP_GOLDS}: the answers of the hops must be lists of texts."
        ) from error


def has_hop_golds(record: Record, case_tags: Mapping[str, Any]) -> bool:
    """Return whether the run stores the accepted answers of the hops of a question.

    Args:
        record: record with the fields `hop_golds` and `tags`.
        case_tags: tags of its case.
    """
    return bool(record.hop_golds) or HOP_GOLDS in record.tags or HOP_GOLDS in case_tags
