"""Configuration files of runs: the options of `emend run` as YAML, for one or several models."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import ValidationError

from emend.evals.config.mode import END
from emend.evals.config.overrides import MODEL
from emend.evals.config.run_config import RunConfig
from emend.memory.errors import (
    BadData,
    BadSettings,
    MissingData,
    path_remedy,
    problem_of,
    reason_of,
)
from emend.memory.files import read_input, write_export
from emend.memory.json_files import check_yaml
from emend.memory.redaction import hide_keys
from emend.memory.registry import nearest

MODELS, OUT, REQUIRE = "models", "out", "require"
FIELDS = (*RunConfig.model_fields, MODELS, OUT, REQUIRE)
MAX_BYTES = 2**20


class RunPlan(NamedTuple):
    """Configurations of a run, one per model, with the folder if the file names one, and thresholds
    for its metrics.
    """

    configs: tuple[RunConfig, ...]
    out: Path | None = None
    require: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        file: Mapping[str, Any],
        options: Mapping[str, Any],
        out: Path | None = None,
        require: Sequence[str] = (),
    ) -> "RunPlan":
        """Create the plan from a file and the command line, which takes precedence.

        Settings and benchmark options are merged name by name; the file's settings for editors that
        are not in the run are left out.

        Args:
            file: fields of a configuration, `models`, `out` and `require`.
            options: fields of a configuration; `model` is a list.
            out: run folder that replaces the file's.
            require: thresholds that replace the file's.

        Raises:
            BadSettings: a field is missing, unknown or invalid.
        """
        fields = {
            name: value for name, value in file.items() if name not in (MODEL, MODELS, OUT, REQUIRE)
        }
        alone = file.get(MODEL, RunConfig.model_fields[MODEL].default)
        models = options.get(MODEL) or file.get(MODELS) or [alone]
        if out is None and OUT in file:
            out = Path(file[OUT])
        editors = options.get("editors") or fields.get("editors", ())
        settings = {
            name: dict(of)
            for name, of in fields.get("overrides", {}).items()
            if name in (*editors, MODEL)
        }
        for name, values in options.get("overrides", {}).items():
            settings[name] = settings.get(name, {}) | values
        benchmark_options = fields.get("benchmark_options", {}) | options.get(
            "benchmark_options", {}
        )
        fields |= dict(options) | {"overrides": settings, "benchmark_options": benchmark_options}
        configs = tuple(_config(fields | {MODEL: model}) for model in dict.fromkeys(models))
        return cls(configs, out, tuple(require or file.get(REQUIRE, ())))

    def runs(self, out: Path) -> list[tuple[RunConfig, Path]]:
        """Return each configuration with its run folder.

        The folder is the plan's, or else `out`; with several models, each has a subfolder named
        after the model.
        """
        out = self.out or out
        if len(self.configs) == 1:
            return [(self.configs[0], out)]
        names: list[str] = []
        for config in self.configs:
            name = re.sub(r"[^\w.-]+", "-", config.model).strip("-.")[:100] or "model"
            names.append(name if name not in names else f"{name}-{len(names) + 1}")
        return [(config, out / name) for config, name in zip(self.configs, names, strict=True)]

    def write(self, path: Path) -> None:
        """Write a configuration file that `read_run_file` can read.

        Raises:
            BadSettings: the file cannot be written.
        """
        write_export(path, self.text(), "Give another --save-config FILE.")

    def text(self) -> str:
        """Return the content of a configuration file, without API keys."""
        import yaml

        fields = self.configs[0].model_dump(mode="json", exclude_defaults=True, exclude={MODEL})
        # the default in mode sequential, but invalid if the mode is changed later
        if fields.get("reevaluate_at") == END:
            del fields["reevaluate_at"]
        models = [config.model for config in self.configs]
        fields |= {MODELS: models} if len(models) > 1 else {MODEL: models[0]}
        fields |= {OUT: str(self.out)} if self.out is not None else {}
        fields |= {REQUIRE: list(self.require)} if self.require else {}
        return hide_keys(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True))


def _config(fields: Mapping[str, Any]) -> RunConfig:
    try:
        return RunConfig.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        if first["type"] == "missing":
            option = "--" + name.removesuffix("s")
            raise BadSettings(
                f"{option} is missing: give it, or '{name}' in a configuration file."
            ) from error
        value = hide_keys(str(first["input"]))[:80]
        raise BadSettings(f"'{name}' is {value}: {problem_of(first)}.") from error


def read_run_file(path: Path) -> dict[str, Any]:
    """Read the fields of a configuration file, converted to their types.

    Raises:
        MissingData: the file does not exist.
        BadSettings: the file is not a YAML mapping of fields, or a field is unknown.
    """
    return typed_fields(parse_yaml(path), path)


def typed_fields(fields: Mapping[Any, Any], path: Path) -> dict[str, Any]:
    """Convert the fields of a configuration file to their types.

    Raises:
        BadSettings: a field is unknown or malformed.
    """
    for name in fields:
        if name not in FIELDS:
            raise BadSettings(
                f"'{path}' has a field '{str(name)[:80]}', which is unknown: "
                f"{nearest(str(name), list(FIELDS))}"
            )
    if MODEL in fields and MODELS in fields:
        raise BadSettings(f"'{path}' has 'model' and 'models': leave one out.")
    return {
        str(name): _typed(str(name), value, path)
        for name, value in fields.items()
        if value is not None
    }


def parse_yaml(path: Path) -> dict[Any, Any]:
    """Read the fields of a YAML file without aliases.

    Raises:
        MissingData: the file does not exist.
        BadSettings: the file is not a YAML mapping of fields, has aliases, or too many levels.
    """
    import yaml

    try:
        content = read_input(path)
    except FileNotFoundError as error:
        raise MissingData(
            f"the configuration file '{path}' does not exist: {path_remedy(path)} One is "
            "written by emend run --save-config FILE."
        ) from error
    except (OSError, ValueError) as error:
        raise MissingData(
            f"the configuration file '{path}' cannot be read: {reason_of(error)}. Name another."
        ) from error
    try:
        if len(content) > MAX_BYTES:
            raise BadSettings(
                f"'{path}' is not a configuration of a run: it has {len(content)} bytes."
            )
        text = content.decode()
        check_yaml(text, f"'{path}'", yaml.SafeLoader)
        fields = yaml.safe_load(text)
    except BadData as error:
        raise BadSettings(str(error)) from error
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BadSettings(f"'{path}' is not valid YAML: {_yaml_fault(error)}.") from error
    if not isinstance(fields, dict):
        raise BadSettings(
            f"'{path}' is not a configuration of a run: write lines such as 'benchmark: tinyworld'."
        )
    return fields


def _yaml_fault(error: Exception) -> str:
    """Return the position and the cause of an error in a YAML file."""
    from yaml import MarkedYAMLError

    if isinstance(error, MarkedYAMLError) and error.problem_mark is not None:
        mark = error.problem_mark
        fault = f"line {mark.line + 1}, column {mark.column + 1}, {error.problem}: correct it there"
    else:
        fault = " ".join(str(error).split())
    return hide_keys(fault)[:200]


def _typed(name: str, value: Any, path: Path) -> Any:
    """Convert a value to its field's type: a number to text where text is expected, a single item
    to a tuple.
    """
    others: dict[str, Any] = {MODELS: tuple[str, ...], REQUIRE: tuple[str, ...], OUT: str}
    if name in others:
        annotation = others[name]
    else:
        annotation = RunConfig.model_fields[name].annotation
    kinds = get_args(annotation) or (annotation,)
    if get_origin(annotation) is dict:
        if not isinstance(value, dict) or (
            name == "overrides" and not all(isinstance(v, dict) for v in value.values())
        ):
            raise BadSettings(f"'{path}', field '{name}': write name: value below it, indented.")
        if kinds[1] is str:
            return {str(k): _text(v) for k, v in value.items()}
        return value
    if get_origin(annotation) is tuple:
        items: Sequence[Any] = value if isinstance(value, list) else [value]
        return tuple(dict.fromkeys(map(_text, items)))
    if str in kinds:
        return _text(value)
    return value


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, default=str)
