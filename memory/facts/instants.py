"""Instants as strings in one UTC format, which sort in chronological order."""

from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from emend.memory.errors import BadData, BadSettings
from emend.memory.store.superseding import parse_time

BEGINNING_OF_TIME = "0001-01-01T00:00:00.000000Z"
# Later than every date that texts mention, so that a dated fact starts before any undated
# statement.
_UNDATED_DAY = datetime(2100, 1, 1)


def undated(number: int) -> str:
    """Return the placeholder instant of operation `number` (from 0), which has no time."""
    return _text(_UNDATED_DAY + timedelta(seconds=number))


def is_undated(instant: str) -> bool:
    """Return whether an instant is a placeholder made by `undated`."""
    return instant.startswith("2100-01-")


def now() -> str:
    """Return the current instant."""
    return _text(datetime.now(UTC))


def read_instant(time: str, zone: tzinfo = UTC) -> str:
    """Return the start of an ISO 8601 year, month, day or time as an instant.

    Raises:
        BadData: the text is not in one of these formats.
    """
    parsed = parse_time(time, zone) if isinstance(time, str) else None
    if parsed is None:
        raise BadData(
            f"'{time}' is not a time: write 2026, 2026-05, 2026-05-31 or 2026-05-31T09:00+02:00."
        )
    return _text(parsed)


def read_zone(name: str) -> tzinfo:
    """Return the time zone with that name.

    Raises:
        BadSettings: there is no such zone.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadSettings(
            f"unknown time zone '{name}': take a name such as UTC or Europe/Berlin."
        ) from error


def _text(instant: datetime) -> str:
    # Not strftime, which writes years before 1000 without leading zeros.
    return instant.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
