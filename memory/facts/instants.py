"""Instants as texts of one form in UTC, which compare in the order of time."""

from datetime import UTC, datetime, tzinfo
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from emend.memory.errors import BadData, BadSettings
from emend.memory.store.superseding import parse_time


def now() -> str:
    """The present instant."""
    return _text(datetime.now(UTC))


def read_instant(time: str, zone: tzinfo = UTC) -> str:
    """The instant at which an ISO 8601 year, month, day or instant starts.

    Raises:
        BadData: it is no such text.
    """
    parsed = parse_time(time, zone)
    if parsed is None:
        raise BadData(f"'{time}' is no time: write 2026, 2026-05, 2026-05-31 or 2026-05-31T09:00+02:00.")
    return _text(parsed)


def read_zone(name: str) -> tzinfo:
    """The time zone of that name.

    Raises:
        BadSettings: there is none.
    """
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise BadSettings(f"unknown time zone '{name}': take a name such as UTC or Europe/Berlin.") from error


def _text(instant: datetime) -> str:
    # Not strftime: it writes years before 1000 without zeros.
    return instant.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
