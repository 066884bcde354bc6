"""Configuration files of runs: the options of `emend run` as YAML, for one model or several."""

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, get_args, get_origin

from pydantic import ValidationError

from emend.evals.config.run_config import END, MODEL, RunConfig
from emend.memory.errors import BadSettings, MissingData
from emend.memory.files import read_input
from emend.memory.redaction import hide_keys
from emend.memory.registry import nearest

MODELS, OUT = "models", "out"
FIELDS = (*RunConfig.model_fields, MODELS, OUT)
MAX_BYTES = 2**20


class RunPlan(NamedTuple):
    """Configurations of a run, one per model, and its folder if the file names one."""

    configs: tuple[RunConfig, ...]
    out: Path | None = None

    @classmethod
    def of(cls, file: Mapping[str, Any], options: Mapping[str, Any], out: Path | None = None) -> "RunPlan":
        """Make the plan of what a file says and what is given on the command line, which comes first.

        Settings and options of a benchmark are merged name by name, and settings of editors that are not in the run are
        left out of the file's.

        Args:
            file: fields of a configuration, `models` and `out`.
            options: fields of a configuration; `model` is a list.
            out: run folder, in place of the file's.

        Raises:
            BadSettings: a field is missing, unknown or impossible.
        """
        fields = {name: value for name, value in file.items() if name not in (MODEL, MODELS, OUT)}
        alone = file.get(MODEL, RunConfig.model_fields[MODEL].default)
        models = options.get(MODEL) or file.get(MODELS) or [alone]
        if out is None and OUT in file:
            out = Path(file[OUT])
        editors = options.get("editors") or fields.get("editors", ())
        settings = {name: dict(of) for name, of in fields.get("overrides", {}).items() if name in (*editors, MODEL)}
        for name, values in options.get("overrides", {}).items():
            settings[name] = settings.get(name, {}) | values
        benchmark_options = fields.get("benchmark_options", {}) | options.get("benchmark_options", {})
        fields |= dict(options) | {"overrides": settings, "benchmark_options": benchmark_options}
        return cls(tuple(_config(fields | {MODEL: model}) for model in dict.fromkeys(models)), out)

    def runs(self, out: Path, mirror: str | None = None) -> list[tuple[RunConfig, Path, str | None]]:
        """List each configuration with its run folder, and the address of its mirror.

        One model's folder is the plan's, or else `out`; of several, each has one in it, named by the model.
        """
        out = self.out or out
        if len(self.configs) == 1:
            return [(self.configs[0], out, mirror)]
        names: list[str] = []
        for config in self.configs:
            name = re.sub(r"[^\w.-]+", "-", config.model).strip("-.")[:100] or "model"
            names.append(name if name not in names else f"{name}-{len(names) + 1}")
        return [
            (config, out / name, mirror and f"{mirror.rstrip('/')}/{name}")
            for config, name in zip(self.configs, names, strict=True)
        ]

    def write(self, path: Path) -> None:
        """Write a file that `read_run_file` reads.

        Raises:
            BadSettings: it cannot be written.
        """
        try:
            path.write_text(self.text(), encoding="utf-8")
        except (OSError, ValueError) as error:
            raise BadSettings(f"cannot write '{path}': {error}. Give another --save-config FILE.") from error

    def text(self) -> str:
        """Content of such a file, without keys."""
        import yaml

        fields = self.configs[0].model_dump(mode="json", exclude_defaults=True, exclude={MODEL})
        if fields.get("reevaluate_at") == END:  # it follows from mode sequential, and not from another one
            del fields["reevaluate_at"]
        models = [config.model for config in self.configs]
        fields |= {MODELS: models} if len(models) > 1 else {MODEL: models[0]}
        fields |= {OUT: str(self.out)} if self.out is not None else {}
        return hide_keys(yaml.safe_dump(fields, sort_keys=False, allow_unicode=True))


def _config(fields: Mapping[str, Any]) -> RunConfig:
    try:
        return RunConfig.model_validate(fields)
    except ValidationError as error:
        first = error.errors()[0]
        name = str(first["loc"][0])
        if first["type"] == "missing":
            option = "--" + name.removesuffix("s")
            raise BadSettings(f"{option} is missing: give it, or '{name}' in a configuration file.") from error
        value = hide_keys(str(first["input"]))[:80]
        raise BadSettings(f"'{name}' is {value}: {first['msg']}.") from error


def read_run_file(path: Path) -> dict[str, Any]:
    """Read the fields of a configuration file, as its fields' types need them.

    Raises:
        MissingData: there is no such file.
        BadSettings: it is no YAML of fields, or one is unknown.
    """
    return typed_fields(parse_yaml(path), path)


def typed_fields(fields: Mapping[Any, Any], path: Path) -> dict[str, Any]:
    """Return fields of a configuration that a file has, as their types need them.

    Raises:
        BadSettings: one is unknown, or of another form.
    """
    for name in fields:
        if name not in FIELDS:
            raise BadSettings(
                f"'{path}' has a field '{str(name)[:80]}', which no run has: {nearest(str(name), list(FIELDS))}"
            )
    if MODEL in fields and MODELS in fields:
        raise BadSettings(f"'{path}' has 'model' and 'models': leave one out.")
    return {str(name): _typed(str(name), value, path) for name, value in fields.items() if value is not None}


def parse_yaml(path: Path) -> dict[Any, Any]:
    """Read the fields of a YAML file without aliases.

    Raises:
        MissingData: there is no such file.
        BadSettings: it is no YAML of fields.
    """
    import yaml

    try:
        content = read_input(path)
    except (OSError, ValueError) as error:
        raise MissingData(f"the configuration file '{path}' cannot be read: {error}. Name another.") from error
    try:
        if len(content) > MAX_BYTES:
            raise BadSettings(f"'{path}' is no configuration of a run: it has {len(content)} bytes.")
        text = content.decode()
        if any(isinstance(event, yaml.AliasEvent) for event in yaml.parse(text, yaml.SafeLoader)):
            raise BadSettings(f"'{path}' has aliases (*NAME), which are not read: write the text out.")
        fields = yaml.safe_load(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError, ValueError) as error:
        raise BadSettings(f"'{path}' is no YAML ({' '.join(hide_keys(str(error)).split())[:200]}).") from error
    if not isinstance(fields, dict):
        raise BadSettings(f"'{path}' is no configuration of a run: write lines such as 'benchmark: tinyworld'.")
    return fields


def _typed(name: str, value: Any, path: Path) -> Any:
    """Return the value in its field's type: a text for a number where a text is expected, a list of one for one."""
    annotation = tuple[str, ...] if name == MODELS else RunConfig.model_fields[name].annotation if name != OUT else str
    kinds = get_args(annotation) or (annotation,)
    if get_origin(annotation) is dict:
        if not isinstance(value, dict) or (
            name == "overrides" and not all(isinstance(v, dict) for v in value.values())
        ):
            raise BadSettings(f"'{path}', field '{name}': write name: value below it, indented.")
        return {str(k): _text(v) for k, v in value.items()} if kinds[1] is str else value
    if get_origin(annotation) is tuple:
        items: Sequence[Any] = value if isinstance(value, list) else [value]
        return tuple(dict.fromkeys(map(_text, items)))
    return _text(value) if str in kinds else value


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
