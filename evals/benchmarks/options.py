"""What a user may ask of a benchmark, checked before any file is read: options, settings, limits, and their values."""

from collections.abc import Collection, Mapping

from emend.evals.benchmarks.triples import EXTRACTED, OPTION
from emend.memory.errors import BadSettings
from emend.memory.registry import nearest


def known_options(benchmark: str, told: Mapping[str, str] | None, known: Collection[str]) -> dict[str, str]:
    """The options, if all have a known name.

    Raises:
        BadSettings: one has not.
    """
    for option in told or {}:
        one_of(benchmark, "option", option, known)
    return dict(told or {})


def one_of(benchmark: str, what: str, value: str, known: Collection[str]) -> str:
    """The value, if it is a known one.

    Raises:
        BadSettings: it is not; names the nearest.
    """
    if value not in known:
        raise BadSettings(f"unknown {what} '{value}' of {benchmark}: {nearest(value, list(known))}")
    return value


def some_of(benchmark: str, option: str, told: str, known: Collection[str]) -> tuple[str, ...]:
    """The values of a comma list, each once, in its order; `option` is in the plural ("blocks").

    Raises:
        BadSettings: one is unknown, or there is none.
    """
    names = tuple(dict.fromkeys(part.strip() for part in told.split(",") if part.strip()))
    for name in names:
        one_of(benchmark, option.removesuffix("s"), name, known)
    if not names:
        raise BadSettings(f"{option}='{told}' of {benchmark}: name at least one of {', '.join(known)}.")
    return names


def flag(benchmark: str, option: str, told: str) -> bool:
    """Yes or no.

    Raises:
        BadSettings: it is neither.
    """
    if told.lower() not in ("0", "1", "true", "false"):
        raise BadSettings(f"{option}='{told}' of {benchmark}: give 1 (yes) or 0 (no).")
    return told.lower() in ("1", "true")


def way_to_triplets(benchmark: str, setting: str) -> str:
    """How to get the triplets that a setting of `EXTRACTED` needs, as a part of a sentence."""
    method = " --method llm --model MODEL" if setting == "llm" else ""
    return (
        f"make some with emend extract --benchmark {benchmark}{method} --out FILE (and the same --data and "
        f"--benchmark-option), then give --benchmark-option {OPTION}=FILE --setting {setting}"
    )


def check_request(
    benchmark: str, setting: str, settings: Collection[str], limit: int | None, texts: bool = False
) -> None:
    """That cases may be asked for so; `texts` says that triplets can be taken out of the benchmark's edits.

    Raises:
        BadSettings: the setting is unknown, or needs triplets that were not given, or the limit is below 1.
    """
    if texts and setting in EXTRACTED and setting not in settings:
        raise BadSettings(
            f"setting '{setting}' of {benchmark} needs triplets taken out of its texts: "
            f"{way_to_triplets(benchmark, setting)}; or use one that needs none: {', '.join(settings)}."
        )
    one_of(benchmark, "setting", setting, settings)
    if limit is not None and limit < 1:
        raise BadSettings(f"limit={limit}: at least 1 case is needed.")
