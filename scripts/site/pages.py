"""Pages of the documentation site that are made from other sources: start page, commands, steps of papers, Python API.

MkDocs calls these hooks (`hooks` in mkdocs.yml). README.md becomes the start page, the reference of the commands comes
from Typer, that of the Python API from the public names, the steps of the papers from the constructions. Links to files
outside `docs/` become links into the repository where `repo_url` is set, and plain code elsewhere.
"""

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from typer.core import TyperGroup
from typer.main import get_command

import emend
from emend.evals.cli.main import command_summaries, load_command
from emend.evals.construction.paper_steps import steps_table

ROOT = Path(__file__).parents[2]
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*```")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages to those of `docs/`, and leave out the notebook."""
    notebook = files.get_file_from_path("tutorial.ipynb")
    if notebook is not None:
        files.remove(notebook)
    pages = {
        "index.md": (ROOT / "README.md").read_text("utf-8"),
        "reference/commands.md": commands_page(),
        "reference/api.md": api_page(),
        "reference/paper-steps.md": paper_steps_page(),
    }
    for path, content in pages.items():
        files.append(File.generated(config, path, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Rewrite the links of a page that lead out of `docs/`."""
    is_start = page.file.src_uri == "index.md"
    source = "README.md" if is_start else f"docs/{page.file.src_uri}"
    lines = []
    in_code = False
    for line in markdown.split("\n"):
        if FENCE.match(line):
            in_code = not in_code
        lines.append(line if in_code else rewrite_links(line, source, config.repo_url))
    return "\n".join(lines)


def rewrite_links(line: str, source: str, repo_url: str | None) -> str:
    """Return a line whose links fit the site.

    Args:
        line: of Markdown, outside of code.
        source: path of the page in the repository, to which the links are relative.
        repo_url: address of the repository; None for links that become plain text.
    """

    def rewrite(match: re.Match[str]) -> str:
        image, text, target = match.groups()
        if re.match(r"[a-z]+:|#", target):
            return match[0]
        path, _, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        if path == "README.md":
            path = "docs/index.md"
        if path.startswith("docs/") and path.endswith((".md", ".svg", ".webp", ".png")):
            start = posixpath.dirname(source) if source.startswith("docs/") else "docs"
            address = posixpath.relpath(path, start)
            return f"{image}[{text}]({address}{'#' if anchor else ''}{anchor})"
        if repo_url:
            return f"[{text}]({repo_url.rstrip('/')}/blob/main/{path})"
        return text if "`" in text else f"{text} (`{path}`)"

    return LINK.sub(rewrite, line)


def commands_page() -> str:
    """Return the reference of all commands, grouped as `emend --help` groups them."""
    lines = ["# Commands", ""]
    lines += ["`emend COMMAND --help` prints the same. Names in capitals are values that you give.", ""]
    summaries = command_summaries()
    panels = dict.fromkeys(command.panel for command in summaries)
    for panel in panels:
        lines += [f"## {panel}", ""]
        for command in summaries:
            if command.panel == panel:
                lines += _command_lines(f"emend {command.name}", load_command(command.name))
    return "\n".join(lines)


def paper_steps_page() -> str:
    """Return the table of the papers' steps beside recipe `paper` of `emend build`."""
    lines = ["# Steps of the papers", ""]
    lines += ["How recipe `paper` of `emend build` implements each step of a paper, and where it differs. A dash marks"]
    lines += ["steps that rules take before the graph runs, or that people take.", "", *steps_table(), ""]
    return "\n".join(lines)


def _command_lines(name: str, command: Any) -> Iterator[str]:
    if isinstance(command, typer.Typer):
        command = get_command(command)
    yield f"### {name}"
    yield ""
    yield _plain(command.help or command.short_help or "")
    yield ""
    if isinstance(command, TyperGroup):
        for sub_name in command.commands:
            yield from _command_lines(f"{name} {sub_name}", command.commands[sub_name])
        return
    parameters = [parameter for parameter in command.params if not getattr(parameter, "hidden", False)]
    if not parameters:
        return
    yield "| option | meaning |"
    yield "| --- | --- |"
    for parameter in parameters:
        yield f"| {_parameter_name(parameter)} | {_cell(getattr(parameter, 'help', '') or '')} |"
    yield ""


def _parameter_name(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.metavar or parameter.name.upper()}`"
    names = [*parameter.opts, *parameter.secondary_opts]
    return ", ".join(f"`{name}`" for name in names)


def _plain(text: str) -> str:
    """Return a help text as Markdown: its line breaks within a paragraph and Typer's marks go."""
    paragraphs = re.split(r"\n\s*\n", text.replace("\b", ""))
    return "\n\n".join(_escape(" ".join(paragraph.split())) for paragraph in paragraphs)


def _cell(text: str) -> str:
    return _escape(" ".join(text.split())).replace("|", "\\|")


def _escape(text: str) -> str:
    return re.sub(r"([<>*\[\]])", r"\\\1", text)


def api_page() -> str:
    """Return the reference of the public names, which mkdocstrings fills from their docstrings."""
    names = {name: f"emend.{module}.{name}" for name, module in sorted(emend._PLACES.items())}
    lines = ["# Python API", ""]
    lines += ["The names of `import emend`. Everything else may move between versions.", ""]
    for title, lower in (("Functions", True), ("Classes", False)):
        lines += [f"## {title}", ""]
        for name, path in names.items():
            if name[0].islower() == lower:
                lines += [f"::: {path}", "    options:", f"      heading: emend.{name}", f"      toc_label: {name}", ""]
    return "\n".join(lines)
