"""The viewer's pages of a run as an inline frame of a notebook."""

from html import escape
from pathlib import Path

from emend.memory.distribution import install_command
from emend.memory.errors import MissingExtra


class ViewFrame:
    """All pages of a run in one, which a notebook shows; `save` writes them into a file.

    Args:
        folder: the run folder.
        cases: cases that get a page: `all`, `wrong`, `flipped`, or the number of a random sample.
        height: pixels.

    Raises:
        MissingExtra: the viewer is not installed.
        BadSettings: there is no such choice of cases.
        BadData: a damaged line.
    """

    def __init__(self, folder: Path, cases: str | int, height: int) -> None:
        try:
            from emend.evals.show.view.rendering.export import single_page
        except ImportError as error:
            raise MissingExtra(f"result.view() needs the viewer: {install_command('view')}.") from error
        self.folder, self.height = folder, height
        self.html, self.summary = single_page([folder], str(cases))

    def save(self, file: str | Path) -> None:
        """Write the pages into one HTML file."""
        Path(file).write_text(self.html, encoding="utf-8")

    def _repr_html_(self) -> str:
        # sandboxed, so that the pages reach nothing of the notebook's, whatever a run's texts may be
        return (
            f'<iframe srcdoc="{escape(self.html)}" sandbox="allow-scripts" width="100%" height="{self.height}" '
            'style="border:0" title="Emend: pages of a run"></iframe>'
        )

    def __repr__(self) -> str:
        return f"ViewFrame({str(self.folder)!r}: {self.summary.pages} pages for a notebook; save(FILE) keeps them)"
