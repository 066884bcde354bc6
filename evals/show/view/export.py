"""The viewer's pages as static files, which open from a disk, from any web server and from a sub-path."""

import base64
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from emend.evals.show.view.environment import LEFT_OUT, STATIC, environment, page_key, render
from emend.evals.show.view.scan import require_runs
from emend.evals.show.view.server import PageMissing, Site
from emend.evals.show.view.views import Page, RunEntry
from emend.memory.errors import BadSettings

CHOICES = {
    "all": "all cases",
    "wrong": "cases in which not all answers are right",
    "flipped": "cases in which one editor is right and another wrong",
}
MISSING = (
    "Left out of this export",
    "The page behind this link is not in the export. 'emend view' shows all pages, and 'emend view --export FOLDER "
    "--cases all' writes all cases.",
    200,
)
"""Title, text and status of the page to which links lead whose page is left out."""
INLINE = {"style": "css", "script": "js"}
RUN_PAGES = ("index", "cases", "retrieval", "judges", "errors")
LISTING = "export.txt"
"""File of an export that lists its files, so that the next export into the folder removes what it does not write."""


class ViewExport(NamedTuple):
    """Number of pages, of cases with a page and without one, and bytes."""

    pages: int
    cases: int
    left_out: int
    bytes: int


class Exporter:
    """Collects the paths of an export, and renders them one by one.

    Args:
        site: the static pages.
        choice: of the cases that get a page: `all`, `wrong`, `flipped`, or the number of a random sample.
        single: pages become parts of one file.

    Raises:
        MissingData: there is no run.
    """

    def __init__(self, site: Site, choice: str, single: bool = False) -> None:
        require_runs(site.library.scan)
        self.site, self.choice, self.single = site, choice, single
        self.paths = dict.fromkeys(["index.html", "about.html", LEFT_OUT])
        self.cases: dict[str, tuple[int, int]] = {}
        """By run, the number of cases that have a page, and of all."""
        for run in site.runs():
            self._add_run(run)

    def _add_run(self, run: RunEntry) -> None:
        self.paths |= dict.fromkeys(f"run/{run.id}/{name}.html" for name in RUN_PAGES)
        chosen = self.site.case_paths(run.id, self.choice)
        self.cases[run.id] = (len(chosen), len(self.site.case_paths(run.id, "all")))
        self.paths |= dict.fromkeys(chosen)
        names = {path.rpartition("/")[2] for path in chosen}
        for path in self.site.compare_paths(run.id):
            self.paths[path] = None
            self.paths |= dict.fromkeys(href for href in self._flips(path) if href.rpartition("/")[2] in names)

    def _flips(self, path: str) -> Iterator[str]:
        """Links of a comparison to the pages with both traces of a case."""
        for pair in getattr(self.site.page(path).data, "pairs", ()):
            yield from (flip.href.partition("#")[0] for flip in pair.flips)

    def pages(self) -> Iterator[tuple[str, str]]:
        """Yield the path and the HTML of each page; in one file, of its part."""
        query = {"cases": [self.choice]}
        for path in self.paths:
            try:
                page = self.site.problem(path, *MISSING) if path == LEFT_OUT else self.site.page(path, query)
            except PageMissing:
                continue
            yield path, self._render(path, page)

    def _render(self, path: str, page: Page) -> str:
        run = path.split("/")[1] if path.startswith("run/") else ""
        head = page.head.model_copy(update={"left_out": self._left_out(run)})
        variables = {"single": page_key(path), "layout": "part.html"} if self.single else {}
        return render(Page(head, page.data), exported=self.paths, **variables)

    def _left_out(self, run: str) -> str:
        """Text on what the export lacks, of a run or of all."""
        counts = [self.cases[run]] if run in self.cases else list(self.cases.values())
        here, total = map(sum, zip(*counts, strict=True))
        general = "progress, filters, and comparisons of more than two editors"
        if here == total:
            return f"{general}."
        what = CHOICES.get(self.choice, "a random sample")
        return f"{general}; {total - here:,} of {total:,} cases (--cases {self.choice}: {what})."

    def summary(self, pages: int, size: int) -> ViewExport:
        """Counts of the export."""
        here, total = map(sum, zip(*self.cases.values(), strict=True))
        return ViewExport(pages, here, total - here, size)


def export_folder(folders: Sequence[Path], target: Path, cases: str = "wrong") -> ViewExport:
    """Write the pages into a folder; what an earlier export left there is replaced.

    Raises:
        BadSettings: the folder holds something else.
        MissingData: there is no run.
    """
    earlier = _earlier(target)
    sizes: dict[str, int] = {}
    with Site(folders, static=True) as site:
        exporter = Exporter(site, cases)
        for path, content in _files(exporter):
            file = target / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
            sizes[path] = len(content)
    for path in earlier - set(sizes):
        (target / path).unlink(missing_ok=True)
    (target / LISTING).write_text("\n".join(sorted(sizes)) + "\n", encoding="utf-8")
    return exporter.summary(sum(path.endswith(".html") for path in sizes), sum(sizes.values()))


def _files(exporter: Exporter) -> Iterator[tuple[str, bytes]]:
    for file in sorted(STATIC.iterdir()):
        yield f"static/{file.name}", file.read_bytes()
    for path, html in exporter.pages():
        yield path, html.encode()


def _earlier(target: Path) -> set[str]:
    """Files of an earlier export in a folder.

    Raises:
        BadSettings: the folder is none, or holds something that no export wrote.
    """
    if target.exists() and not target.is_dir():
        raise BadSettings(f"--export {target}: it is a file; name a folder.")
    if not target.exists() or not any(target.iterdir()):
        return set()
    listing = target / LISTING
    if not listing.is_file():
        raise BadSettings(f"--export {target}: the folder holds other files; name a new one.")
    root = target.resolve()
    lines = listing.read_text("utf-8", "replace").splitlines()
    return {line for line in lines if line and (root / line).resolve().is_relative_to(root)}


def export_file(folders: Sequence[Path], file: Path, cases: str = "wrong") -> ViewExport:
    """Write all pages into one HTML file.

    Raises:
        BadSettings: the file's ending is another, or it is a folder.
        MissingData: there is no run.
    """
    if file.suffix.lower() not in (".html", ".htm") or file.is_dir():
        raise BadSettings(f"--single {file}: name a file that ends in .html.")
    html, summary = single_page(folders, cases)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(html, encoding="utf-8")
    return summary


def single_page(folders: Sequence[Path], cases: str = "wrong") -> tuple[str, ViewExport]:
    """All pages in one HTML text, whose script and style are within; links lead to its parts."""
    with Site(folders, static=True) as site:
        exporter = Exporter(site, cases, single=True)
        parts = [html for _, html in exporter.pages()]
        head = site.page("index.html").head
    contents = {name: (STATIC / f"view.{ending}").read_text("utf-8") for name, ending in INLINE.items()}
    hashes = {f"{name}_hash": _hash(text) for name, text in contents.items()}
    shell = environment().get_template("single.html").render(page=head, single="", exported=exporter.paths, **hashes)
    elements = {name: f"<{name}>{text}</{name}>" for name, text in contents.items()}
    html = _fill(shell, elements | {"parts": "\n".join(parts)})
    return html, exporter.summary(len(parts), len(html.encode()))


def _fill(shell: str, contents: Mapping[str, str]) -> str:
    """Put rendered parts between the shell's marks, which no escaped text can contain."""
    for name, text in contents.items():
        before, _, after = shell.partition(f"<!--{name}-->")
        shell = f"{before}{text}{after}"
    return shell


def _hash(text: str) -> str:
    """Hash of an inline script or style, by which the page's policy allows it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
