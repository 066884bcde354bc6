"""Every page of the viewer under axe, in both themes, on narrow and wide screens."""

import json

import pytest

from tests.evals.show.view.browser_pages import general, go, one_of_each, open_all, opened
from tests.evals.show.view.conftest import serving
from tests.evals.show.view.sample_runs import BENCHMARKS, SPECIAL

pytestmark = pytest.mark.slow

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def check_page(page, axe, address):
    """Fits narrow and wide screens, of which axe reads one in each theme: it takes most of the time."""
    go(page, address)
    open_all(page, traces=3)  # axe takes half a minute for all of them, which are alike
    for width, scheme in ((320, "dark"), (1280, "light")):
        page.set_viewport_size({"width": width, "height": 800})
        page.emulate_media(color_scheme=scheme)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, (address, width)
        violations = axe.run(page, options={"runOnly": TAGS}).response["violations"]
        assert not violations, (address, width, scheme, json.dumps(violations, indent=1)[:3000])


@pytest.mark.parametrize("name", ["", *SPECIAL, *BENCHMARKS])
def test_every_page_is_accessible_quiet_and_fits(browser, sample_runs, name):
    from axe_playwright_python.sync_playwright import Axe

    with serving(sample_runs) as home, opened(browser) as page:
        pages = one_of_each(page, home, name) if name else general(home)
        assert len(pages) >= (3 if name not in SPECIAL else 6)
        for address in pages:
            check_page(page, Axe(), address)
