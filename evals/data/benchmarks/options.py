"""Validation of a benchmark's options, settings and limits, before any file is read."""

from collections.abc import Collection, Mapping

from emend.evals.data.benchmarks.triples import EXTRACTED, OPTION
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


def known_options(benchmark: str, options: Mapping[str, str] | None, known: Collection[str]) -> dict[str, str]:
    """Return the options, if all names are known.

    Raises:
        BadSettings: a name is unknown.
    """
    for option in options or {}:
        one_of(benchmark, "option", option, known)
    return dict(options or {})


def one_of(benchmark: str, what: str, value: str, known: Collection[str]) -> str:
    """Return the value, if it is known.

    Raises:
        BadSettings: it is not; names the nearest.
    """
    if value not in known:
        raise BadSettings(f"unknown {what} '{value}' of {benchmark}: {nearest(value, list(known))}")
    return value


def some_of(benchmark: str, option: str, value: str, known: Collection[str]) -> tuple[str, ...]:
    """Parse a comma list into its values, each once, in their order; `option` is in the plural ("blocks").

    Raises:
        BadSettings: a value is unknown, or the list is empty.
    """
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    for name in names:
        one_of(benchmark, option.removesuffix("s"), name, known)
    if not names:
        raise BadSettings(f"{option}='{value}' of {benchmark}: name at least one of {', '.join(known)}.")
    return names


def flag(benchmark: str, option: str, value: str) -> bool:
    """Parse an option that is on (1, true) or off (0, false).

    Raises:
        BadSettings: it is neither.
    """
    if value.lower() not in ("0", "1", "true", "false"):
        raise BadSettings(f"{option}='{value}' of {benchmark}: give 1 (yes) or 0 (no).")
    return value.lower() in ("1", "true")


def check_request(
    benchmark: str, setting: str, settings: Collection[str], limit: int | None, texts: bool = False
) -> None:
    """Check the setting and the limit of a request for cases; `texts` if triplets can be extracted from the edits.

    Raises:
        BadSettings: the setting is unknown, or needs extracted triplets, or the limit is below 1.
    """
    if texts and setting in EXTRACTED and setting not in settings:
        method = " --method llm --model MODEL" if setting == "llm" else ""
        raise BadSettings(
            f"setting '{setting}' of {benchmark} needs triplets extracted from its texts: extract them with emend "
            f"extract --benchmark {benchmark}{method} --out FILE (and the same --data and --benchmark-option), then "
            f"give --benchmark-option {OPTION}=FILE --setting {setting}; or use one that needs none: "
            f"{', '.join(settings)}."
        )
    one_of(benchmark, "setting", setting, settings)
    if limit is not None and limit < 1:
        raise BadSettings(f"limit={limit}: at least 1 case is needed.")
