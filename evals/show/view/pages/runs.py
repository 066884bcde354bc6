"""The page of all runs, and the one about the viewer."""

from emend.evals.log.manifest import versions
from emend.evals.show.view.pages.common import PageRequest, facts
from emend.evals.show.view.views.page import AboutView, Page
from emend.evals.show.view.views.run import RunsView


def runs_page(request: PageRequest) -> Page:
    """All runs, the latest first."""
    library = request.library
    complete = library.count_all()
    entries = tuple(library.entry(place, wait=False) for place in library.scan.runs().values())
    folders = tuple(str(folder) for folder in library.scan.folders)
    words = ["list", "runs", *folders[:1]]
    head = request.head("runs", "Runs", words=words, waiting=not complete)
    return Page(head, RunsView(runs=entries, folders=folders, problems=library.scan.problems))


def about_page(request: PageRequest) -> Page:
    """Versions and folders."""
    folders = tuple(str(folder) for folder in request.library.scan.folders)
    data = AboutView(versions=facts(versions()), folders=folders)
    return Page(request.head("about", "About this viewer", words=["doctor"]), data)
