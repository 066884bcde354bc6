"""Sample runs, a server on 127.0.0.1, and a browser."""

import shutil
import threading
from contextlib import contextmanager

import pytest

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


@contextmanager
def serving(*folders):
    """The address of a viewer of these folders."""
    from emend.evals.show.view.server import listen, make_server
    from emend.evals.show.view.site import Site

    with Site(folders) as site, listen("127.0.0.1", 0) as listener:
        server = make_server(site)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}/"
        finally:
            server.should_exit = True
            thread.join(20)


@pytest.fixture(scope="session")
def sample_runs(tmp_path_factory):
    """A folder with one run of each kind, which no test may change."""
    pytest.importorskip("starlette", reason="the extra 'view' is not installed")
    pytest.importorskip("langchain_openai", reason="the extra 'openai' is not installed")
    from tests.evals.show.view.sample_runs import make_runs

    return make_runs(tmp_path_factory.mktemp("viewed"))


@pytest.fixture(scope="module")
def browser():
    """A Chromium for one file: while it is open, Playwright keeps an event loop running that other tests cannot use."""
    if CHROMIUM is None:
        pytest.skip("no Chromium is installed: apt-get install chromium fonts-dejavu-core")
    playwright = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield started
        started.close()
