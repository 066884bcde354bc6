"""Command-line options: shared by several commands, or generated from configurations."""

import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args, get_origin

import typer
from annotated_types import Ge, Le
from pydantic import BaseModel, ValidationError

from emend.evals.cli.completion import completion_of
from emend.evals.cli.output import print_text
from emend.evals.config.overrides import OVERRIDES
from emend.memory.errors import BadSettings, problem_of
from emend.memory.registry import trust_typed

if TYPE_CHECKING:
    from emend.evals.config.run_config import RunConfig
    from emend.evals.results.aggregate.rows import Report


def _check_plot(file: Path | None) -> Path | None:
    """Refuse a plot that cannot be drawn, before anything is measured."""
    if file is not None:
        from emend.evals.show.report.plots import require_plotting

        require_plotting(file)
    return file


Json = Annotated[
    bool, typer.Option("--json", help='Print one JSON object, {"rows": ...}, and nothing else.')
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FOLDER", help="Run folder; default: runs/BENCHMARK-DATE-TIME."),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="Run folder.")]


ScoringId = Annotated[
    str | None,
    typer.Option(
        "--scoring",
        metavar="ID",
        help="Judgements to show: the id of a scoring, or none; default: the newest scoring.",
    ),
]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot",
        metavar="FILE",
        callback=_check_plot,
        help="Write a figure to this .png or .svg file.",
    ),
]
Settings = Annotated[
    list[str] | None, typer.Option("--set", metavar="PART.KEY=VALUE", help=OVERRIDES)
]
Require = Annotated[
    list[str] | None,
    typer.Option(
        "--require",
        metavar="[EDITOR:]METRIC>=NUMBER",
        help="Threshold, such as rag:efficacy>=0.9 or locality>=95%; applies to all editors but "
        "unedited if none is named, and to the headline metric if no protocol is named (as in "
        "efficacy exact); exit code 1 if a threshold is not met; repeatable; default: none.",
    ),
]
Junit = Annotated[
    Path | None,
    typer.Option(
        "--junit",
        metavar="FILE",
        help="With --require, write the outcomes to this file as JUnit XML.",
    ),
]
API_CALLS = "API calls"
# Largest bound that the help shows.
LARGEST_SHOWN = 10**6
METAVARS: dict[Any, str] = {
    int: "N",
    int | None: "N",
    float: "X",
    float | None: "X",
    str: "TEXT",
    str | None: "TEXT",
}


@dataclass(frozen=True)
class Flag:
    """Command-line spelling of a configuration field.

    An empty name stands for the field's name with hyphens.
    """

    name: str = ""
    metavar: str | None = None
    panel: str | None = None
    envvar: str | None = None


FLAGS = {
    "benchmark_options": Flag("--benchmark-option", "KEY=VALUE"),
    "settings": Flag("--setting", "NAME"),
    "editors": Flag("--editor", "NAME"),
    "systems": Flag("--system", "NAME"),
    "difficulty": Flag(metavar="easy|normal|hard"),
    "protocols": Flag("--protocol", "NAME"),
    "form": Flag(metavar="plain|chat"),
    "strategies": Flag("--strategy", "NAME"),
    "judges": Flag("--judge", "MODEL"),
    "ability": Flag(metavar="TASK"),
    "models": Flag("--model", "[PAPER'S=]MODEL"),
    "run_folders": Flag("--out", "FOLDER"),
    "only": Flag(metavar="DIMENSION=VALUE"),
    "triples": Flag(metavar="NAME=FILE"),
    "kinds": Flag("--kind", "NAME"),
    "overrides": Flag("--set", "PART.KEY=VALUE"),
    "as_json": Flag("--json"),
    "source": Flag("--from", "SOURCE"),
    "recipe": Flag(metavar="paper|best"),
    "language": Flag(metavar="CODE"),
    "since": Flag(metavar="DATE"),
    "contact": Flag(metavar="ADDRESS"),
    "fact": Flag(metavar="new|old"),
    "hops": Flag(metavar="N,..."),
    "edits": Flag(metavar="N,..."),
    "schemes": Flag(metavar="NAME,..."),
    "score": Flag(metavar="NAME=NUMBER"),
    "where": Flag(metavar="CONDITIONS"),
    "format": Flag(metavar="FORM"),
    "columns": Flag(metavar="METRIC,..."),
    "sort": Flag(metavar="METRIC"),
    "memory": Flag(metavar="FOLDER|URL", envvar="EMEND_MEMORY"),
    "memory_server": Flag("--memory", "URL"),
    "prices": Flag(metavar="FILE", panel=API_CALLS),
    "cache": Flag(metavar="FOLDER", panel=API_CALLS),
}
FLAGS |= {name: Flag(panel=API_CALLS) for name in ("max_cost", "max_calls", "rpm", "tpm")}
for each_metavar, names in {
    "NAME": "benchmark setting retriever embedding prompt_template editor kind node method "
    "classifier count_only preset",
    "MODEL": "model judge",
    "FOLDER": "data export",
    "FILE": "perplexity_text out save_recipe facts prompts relations leads svg corrections single",
    "KEY=VALUE": "also_check",
    "MODE": "mode",
    "COUNTS": "reevaluate_at",
    "WHEN": "fail_on_error",
    "KIND": "calibrate workers",
    "URL": "otlp",
    "I/N": "share",
    "ID": "probe",
}.items():
    FLAGS |= {name: Flag(metavar=each_metavar) for name in names.split()}


@dataclass(frozen=True)
class OptionalFields:
    """Annotation of a dict parameter, whose options are fields of a model without defaults.

    The dict contains only the options that are given. `lists` are fields with a single value that
    may be given several times; with `defaults`, the help shows the model's defaults. With `whole`,
    the parameter is the model itself, and its fields become options with their defaults.
    `help_texts` replace the fields' descriptions.
    """

    model: type[BaseModel]
    fields: tuple[str, ...]
    lists: tuple[str, ...] = ()
    defaults: bool = False
    whole: bool = False
    help_texts: tuple[tuple[str, str], ...] = ()

    @classmethod
    def of(cls, annotation: Any) -> "OptionalFields | None":
        """Return the options that a parameter's annotation asks for; None for a typer parameter."""
        base, *extras = (
            get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
        )
        named = next((extra for extra in extras if isinstance(extra, OptionalFields)), None)
        if named is None and isinstance(base, type) and issubclass(base, BaseModel):
            return cls(base, tuple(base.model_fields), whole=True)
        return named

    def parameters(self) -> Iterator[inspect.Parameter]:
        """Yield the options as parameters for typer."""
        help_texts = dict(self.help_texts)
        for name in self.fields:
            field, flag = self.model.model_fields[name], FLAGS.get(name, Flag())
            text = help_texts.get(name, field.description)
            listed, required = name in self.lists, field.is_required()
            repeated = listed or get_origin(field.annotation) in (tuple, dict)
            kind: Any = list[str] if repeated else field.annotation
            if repeated or not self.whole:
                default = None
            else:
                default = field.default
            has_default = (
                self.defaults
                and not required
                and (listed or not repeated)
                and field.default is not None
            )
            if required and self.whole:
                default = inspect.Parameter.empty
            if default is None:
                kind = kind | None
            # a flag that is False by default needs no --no-NAME
            names = (flag_of(name),) if flag.name or field.default is False else ()
            option = typer.Option(
                *names,
                metavar=flag.metavar or _metavar(field.annotation),
                help=f"{text} Repeatable." if listed else text,
                show_default=str(field.default) if has_default else True,
                rich_help_panel=flag.panel,
                envvar=flag.envvar,
                autocompletion=completion_of(name),
                min=_bound(field.metadata, Ge, "ge"),
                max=_bound(field.metadata, Le, "le"),
            )
            yield inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=default,
                annotation=Annotated[kind, option],
            )

    def build(self, values: Mapping[str, Any]) -> Any:
        """Return the dict or model for the command.

        Raises:
            BadSettings: a value does not fit the model.
        """
        fields = {
            name: self._read(name, value) for name, value in values.items() if value is not None
        }
        if not self.whole:
            return fields
        try:
            return self.model(**fields)
        except ValidationError as error:
            first = error.errors()[0]
            raise BadSettings(
                f"{flag_of(str(first['loc'][0]))} {first['input']}: {problem_of(first)}."
            ) from error

    def _read(self, name: str, value: Any) -> Any:
        annotation = self.model.model_fields[name].annotation
        if get_origin(annotation) is tuple or name in self.lists:
            return tuple(dict.fromkeys(value))
        if get_origin(annotation) is dict:
            nested = get_origin(get_args(annotation)[1]) is dict
            if nested:
                return parse_overrides(value)
            return parse_pairs(value, flag_of(name))
        return value


def _metavar(annotation: Any) -> str | None:
    """Return a value's placeholder in the help: its choices or a letter for its type; else None."""
    if get_origin(annotation) is Literal:
        return "|".join(get_args(annotation))
    return METAVARS.get(annotation)


def _bound(metadata: Sequence[Any], kind: type, name: str) -> Any:
    """Return the bound of that kind in a field's metadata.

    None if there is no bound, or if it is too large to show; the model checks it anyway.
    """
    bound = next((getattr(each, name) for each in metadata if isinstance(each, kind)), None)
    if bound is None or bound > LARGEST_SHOWN:
        return None
    return bound


def flag_of(field: str) -> str:
    """Return the command-line option of a configuration field."""
    return FLAGS.get(field, Flag()).name or "--" + field.replace("_", "-")


def grouped(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command for typer with an option for each field of its pydantic parameters.

    The original command receives the validated model. A field's description is the option's help;
    `FLAGS` lists spellings that differ from the field's name.

    Raises:
        ValueError: two parameters have an option of the same name.
    """
    groups: dict[str, OptionalFields] = {}
    parameters: list[inspect.Parameter] = []
    for parameter in inspect.signature(command).parameters.values():
        if group := OptionalFields.of(parameter.annotation):
            groups[parameter.name] = group
            parameters += group.parameters()
        else:
            parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

    @wraps(command)
    def with_options(**values: Any) -> None:
        for name, group in groups.items():
            values[name] = group.build({field: values.pop(field) for field in group.fields})
        command(**values)

    with_options.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_options.__annotations__ = {
        parameter.name: parameter.annotation for parameter in parameters
    }
    return with_options


def exclusive(options: Mapping[str, Any]) -> list[str]:
    """Return the names of the given options, of which at most one may be given.

    Options with the values None, False or () do not count as given.

    Raises:
        BadSettings: several options are given.
    """
    named = [name for name, value in options.items() if value not in (None, False, ())]
    if len(named) > 1:
        raise BadSettings(f"{' and '.join(named)} do not go together: give one of them.")
    return named


EXAMPLES = {
    "--set": "rag.k=3",
    "--only": "method=MEMIT",
    "--triples": "tool=FILE",
    "--extract": "tool=rules",
    "--over": "rag.k=1,3",
}


def parse_pair(text: str, option: str) -> tuple[str, str]:
    """Return key and value of a text `key=value`.

    Raises:
        BadSettings: the text has another form.
    """
    key, equals, value = text.partition("=")
    if not equals or not key:
        example = EXAMPLES.get(option, "split=seen")
        raise BadSettings(
            f"{option} '{text}' is not key=value: write for example {option} {example}."
        )
    return key, value


def parse_pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Return texts `key=value` as a dict.

    Raises:
        BadSettings: a text has another form, or two texts have the same key.
    """
    pairs = dict[str, str]()
    for text in texts:
        key, value = parse_pair(text, option)
        if pairs.setdefault(key, value) != value:
            raise BadSettings(
                f"{option} {key} is given twice, as '{pairs[key]}' and '{value}': give it once, "
                "with commas between several values."
            )
    return pairs


# Suffix of the part of a setting that is an option of the model's chat template.
TEMPLATE = ".template"


def parse_overrides(texts: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return settings by editor.

    `ft.steps=10` gives {"ft": {"steps": 10}}, and `ft=@FILE` reads a TOML file. A value that is not
    JSON is a string.

    `model.template.KEY=VALUE` gives {"model": {"template": {KEY: VALUE}}}, an option of the model's
    chat template.

    Raises:
        BadSettings: a text has another form.
        MissingData: the file does not exist.
    """
    overrides: dict[str, dict[str, Any]] = {}
    for text in texts:
        key, value = parse_pair(text, "--set")
        part, dot, name = key.rpartition(".")
        if value.startswith("@") and not dot:
            from emend.editors.hyperparameters import read_settings

            settings = read_settings(Path(value[1:]).expanduser())
            trust_typed(settings)
            overrides.setdefault(key, {}).update(settings)
            continue
        if not dot or not part:
            raise BadSettings(
                f"--set '{text}' has no editor: write editor.key=value, for example --set rag.k=3."
            )
        settings = overrides.setdefault(part.removesuffix(TEMPLATE), {})
        if part.endswith(TEMPLATE):
            settings = settings.setdefault(TEMPLATE[1:], {})
        settings[name] = parse_value(value)
    return overrides


def parse_value(text: str) -> Any:
    """Parse a value as JSON; other values stay texts."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def local_model(spec: str, settings: dict[str, Any]) -> AbstractContextManager[Any]:
    """Load a local chat model, as a context that closes it.

    Raises:
        BadSettings: the model is not local.
    """
    from emend.agents.llm import MODELS, is_local_spec, load_model

    provider = spec.partition(":")[0]
    is_remote = provider in MODELS.builtin and not is_local_spec(spec)
    model: Any = None if is_remote else load_model(spec, **settings)
    if not hasattr(model, "lm"):
        raise BadSettings(
            f"model '{spec.partition('@')[0]}' is not local, and this command reads the weights "
            "of a local model: use tiny or hf:FOLDER."
        )
    return closing(model)


def check_thresholds(require: Sequence[str] | None, junit: Path | None) -> None:
    """Check the options on thresholds before anything is evaluated.

    Raises:
        BadSettings: a threshold has another form, or --junit is given without --require.
    """
    from emend.evals.metrics.requirement import Requirement

    if junit is not None and not require:
        raise BadSettings("--junit writes the outcomes of --require: give at least one.")
    for text in require or ():
        Requirement.parse(text)


def enforce_thresholds(report: "Report", require: Sequence[str] | None, junit: Path | None) -> None:
    """Print the outcome of each threshold to standard error, and write them as JUnit XML.

    Raises:
        typer.Exit: with code 1 if one is not met.
        BadSettings: a threshold applies to no row of the report, or the file cannot be written.
    """
    from emend.evals.results.aggregate.junit import write_junit
    from emend.evals.results.aggregate.requirement_outcomes import check_requirements

    outcomes = check_requirements(report, require or ())
    for outcome in outcomes:
        print_text(str(outcome), err=True)
    if junit is not None:
        write_junit(outcomes, f"emend {report.benchmark} {report.model}", junit)
    if not all(outcome.met for outcome in outcomes):
        raise typer.Exit(1)


DryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run", help="Print units, calls, tokens, cost and time without calling a model."
    ),
]


def show_estimates(configs: "Sequence[RunConfig]") -> None:
    """Print the estimates of runs."""
    from emend.evals.results.dry_run.run import dry_run
    from emend.evals.show.report.estimates import dry_run_lines

    for config in configs:
        for line in dry_run_lines(dry_run(config)):
            print_text(line)
