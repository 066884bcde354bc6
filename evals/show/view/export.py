"""Export of the viewer's pages as static files.

The files work when opened from disk, and on any web server, also below a sub-path.
"""

import base64
import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from emend.evals.show.view.environment import LEFT_OUT, STATIC, environment, page_key, render
from emend.evals.show.view.pages.registry import run_pages
from emend.evals.show.view.scan import require_runs
from emend.evals.show.view.site import PageMissing, Site
from emend.evals.show.view.views import Page, RunEntry
from emend.memory.errors import BadSettings
from emend.memory.files import write_export

CHOICES = {
    "all": "all cases",
    "wrong": "cases with a wrong or unscored answer",
    "flipped": "cases with one editor right and another wrong",
}
# Title, text and status of the page that replaces left-out pages as target of links.
MISSING = (
    "Left out of this export",
    "The linked page is not part of the export. 'emend view' shows all pages, and 'emend view "
    "--export FOLDER --cases all' exports all cases.",
    200,
)
INLINE = {"style": "css", "script": "js"}
# File that lists the files of an export, so that the next export into the folder removes the files
# that it does not write itself.
LISTING = "export.txt"


class ViewExport(NamedTuple):
    """Number of pages, of cases with and without a page, and of bytes."""

    pages: int
    cases: int
    left_out: int
    bytes: int


class Exporter:
    """Renderer of an export: collects the paths of its pages, and renders them one by one.

    Args:
        site: the static pages.
        choice: cases that get a page: `all`, `wrong`, `flipped`, or the size of a random sample.
        single: render the pages as sections of one file.

    Raises:
        MissingData: there is no run.
        BadData: no run can be read.
    """

    def __init__(self, site: Site, choice: str, single: bool = False) -> None:
        require_runs(site.library.scan)
        self.site, self.choice, self.single = site, choice, single
        self.paths = dict.fromkeys(["index.html", "about.html", LEFT_OUT])
        self.cases: dict[str, tuple[int, int]] = {}
        """Number of cases with a page and of all cases, by run id."""
        for run in site.runs():
            self._add_run(run)

    def _add_run(self, run: RunEntry) -> None:
        location = self.site.library.scan.find(run.id)
        job = location.manifest.job if location else ""
        pages = run_pages(static=True, job=job)
        self.paths |= dict.fromkeys(f"run/{run.id}/{name}.html" for name in pages)
        chosen = self.site.case_paths(run.id, self.choice)
        self.cases[run.id] = (len(chosen), len(self.site.case_paths(run.id, "all")))
        self.paths |= dict.fromkeys(chosen)
        names = {path.rpartition("/")[2] for path in chosen}
        for path in self.site.compare_paths(run.id):
            self.paths[path] = None
            self.paths |= dict.fromkeys(
                href for href in self._flips(path) if href.rpartition("/")[2] in names
            )

    def _flips(self, path: str) -> Iterator[str]:
        """Yield the paths of the pages with both traces of a case that a comparison links to."""
        for pair in getattr(self.site.page(path).data, "pairs", ()):
            yield from (flip.href.partition("#")[0] for flip in pair.flips)

    def pages(self) -> Iterator[tuple[str, str]]:
        """Yield the path and the HTML of each page, or of its section if the export is one file."""
        query = {"cases": [self.choice]}
        for path in self.paths:
            try:
                if path == LEFT_OUT:
                    page = self.site.problem(path, *MISSING)
                else:
                    page = self.site.page(path, query)
            except PageMissing:
                continue
            yield path, self._render(path, page)

    def _render(self, path: str, page: Page) -> str:
        run = ""
        if path.startswith("run/"):
            run = path.split("/")[1]
        head = page.head.model_copy(update={"left_out": self._left_out(run)})
        variables = {}
        if self.single:
            variables = {"single": page_key(path), "layout": "part.html"}
        return render(Page(head, page.data), exported=self.paths, **variables)

    def _left_out(self, run: str) -> str:
        """Return a text that lists what the export leaves out of a run, or of all runs."""
        if run in self.cases:
            counts = [self.cases[run]]
        else:
            counts = list(self.cases.values())
        here, total = map(sum, zip(*counts, strict=True))
        general = "progress, filters, and comparisons of more than two editors"
        if here == total:
            return f"{general}."
        what = CHOICES.get(self.choice, "a random sample")
        return f"{general}; {total - here:,} of {total:,} cases (--cases {self.choice}: {what})."

    def summary(self, pages: int, size: int) -> ViewExport:
        """Return the counts of the export."""
        here, total = map(sum, zip(*self.cases.values(), strict=True))
        return ViewExport(pages, here, total - here, size)


def export_folder(folders: Sequence[Path], target: Path, cases: str = "wrong") -> ViewExport:
    """Write the pages into a folder, replacing the files of an earlier export.

    Raises:
        BadSettings: the folder contains other files.
        MissingData: there is no run.
    """
    earlier = _earlier(target)
    sizes: dict[str, int] = {}
    with Site(folders, static=True) as site:
        exporter = Exporter(site, cases)
        # first, so that the next export recognizes the files of an interrupted one
        statics = (f"static/{file.name}" for file in STATIC.iterdir())
        _write_listing(target, {*earlier, *statics, *exporter.paths})
        for path, content in _files(exporter):
            write_export(target / path, content, parents=True)
            sizes[path] = len(content)
    for path in earlier - set(sizes):
        (target / path).unlink(missing_ok=True)
    _write_listing(target, sizes)
    return exporter.summary(sum(path.endswith(".html") for path in sizes), sum(sizes.values()))


def _write_listing(target: Path, names: Iterable[str]) -> None:
    write_export(target / LISTING, "\n".join(sorted(names)) + "\n", parents=True)


def _files(exporter: Exporter) -> Iterator[tuple[str, bytes]]:
    for file in sorted(STATIC.iterdir()):
        yield f"static/{file.name}", file.read_bytes()
    for path, html in exporter.pages():
        yield path, html.encode()


def _earlier(target: Path) -> set[str]:
    """Return the names of the files of an earlier export in a folder.

    Raises:
        BadSettings: the path is a file, or the folder contains files that no export wrote.
    """
    if target.exists() and not target.is_dir():
        raise BadSettings(f"--export {target} is a file: name a folder.")
    if not target.exists() or not any(target.iterdir()):
        return set()
    listing = target / LISTING
    if not listing.is_file():
        raise BadSettings(f"--export {target}: the folder contains other files; name a new one.")
    root = target.resolve()
    lines = listing.read_text("utf-8", "replace").splitlines()
    return {line for line in lines if line and (root / line).resolve().is_relative_to(root)}


def export_file(folders: Sequence[Path], file: Path, cases: str = "wrong") -> ViewExport:
    """Write all pages into one HTML file.

    Raises:
        BadSettings: the path does not end in .html or .htm, or is a folder.
        MissingData: there is no run.
    """
    if file.suffix.lower() not in (".html", ".htm") or file.is_dir():
        raise BadSettings(f"--single {file}: name a file that ends in .html.")
    html, summary = single_page(folders, cases)
    write_export(file, html, parents=True)
    return summary


def single_page(folders: Sequence[Path], cases: str = "wrong") -> tuple[str, ViewExport]:
    """Return all pages as one HTML text with inline script and style, and links to its sections."""
    with Site(folders, static=True) as site:
        exporter = Exporter(site, cases, single=True)
        parts = [html for _, html in exporter.pages()]
        head = site.page("index.html").head
    contents = {
        name: (STATIC / f"view.{ending}").read_text("utf-8") for name, ending in INLINE.items()
    }
    hashes = {f"{name}_hash": _hash(text) for name, text in contents.items()}
    shell = (
        environment()
        .get_template("single.html")
        .render(page=head, single="", exported=exporter.paths, **hashes)
    )
    elements = {name: f"<{name}>{text}</{name}>" for name, text in contents.items()}
    html = _fill(shell, elements | {"parts": "\n".join(parts)})
    return html, exporter.summary(len(parts), len(html.encode()))


def _fill(shell: str, contents: Mapping[str, str]) -> str:
    """Replace the comments `<!--name-->` of the shell; escaped text cannot contain them."""
    for name, text in contents.items():
        before, _, after = shell.partition(f"<!--{name}-->")
        shell = f"{before}{text}{after}"
    return shell


def _hash(text: str) -> str:
    """Return the hash of an inline script or style for the page's content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
