"""Jinja environment of the viewer's templates.

Values are HTML-escaped, API keys are hidden, and control characters are made visible.
"""

import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import (
    ChoiceLoader,
    Environment,
    FileSystemLoader,
    FunctionLoader,
    StrictUndefined,
    pass_context,
)
from jinja2.runtime import Context

from emend.evals.show.report.secondary import cost_text
from emend.evals.show.view.charts import panels, symmetric, whisker
from emend.evals.show.view.graph_layout import draw_graph
from emend.evals.show.view.pages.common import text_of
from emend.evals.show.view.pages.registry import find_page
from emend.evals.show.view.views import Page
from emend.memory.escape import visible_controls
from emend.memory.redaction import hide_keys, key_hider

# Target of an export's links to pages that are left out.
LEFT_OUT = "left-out.html"
_UNFIT = re.compile(r"[^A-Za-z0-9]+")


@pass_context
def page_url(context: Context, link: str) -> str:
    """Convert a link from the viewer's root to a link relative to the page that shows it."""
    path, _, anchor = link.partition("#")
    exported = context.get("exported")
    if exported is not None and path not in exported and not path.startswith("static/"):
        path, anchor = LEFT_OUT, ""
    if context.get("single") is None:
        if anchor:
            path = f"{path}#{anchor}"
        return f"{context['page'].root}{path}"
    if anchor:
        return f"#{page_key(path)}--{anchor}"
    return f"#{page_key(path)}"


@pass_context
def page_anchor(context: Context, name: str) -> str:
    """Return the HTML id of a section of a page.

    In a file that contains all pages, the id is prefixed with the key of the page.
    """
    key = context.get("single")
    if key is None:
        return name
    return f"{key}--{name}"


def page_key(path: str) -> str:
    """Return the key of a page: its HTML id in a file that contains all pages."""
    return _UNFIT.sub("-", path.removesuffix(".html"))


TEMPLATES, STATIC = Path(__file__).with_name("templates"), Path(__file__).with_name("static")
# Function that hides the API keys known at the start of rendering a page.
_hide: ContextVar[Callable[[str], str]] = ContextVar("hide", default=hide_keys)


def _finalize(value: Any) -> Any:
    """Make a text of a run harmless; markup that templates created is left unchanged."""
    if type(value) is str:
        return visible_controls(_hide.get()(value))
    return value


def _page_template(file: str) -> str | None:
    """Return the text of the template of a page from another package, or None."""
    page = find_page(file.removesuffix(".html"))
    if page is None or page.template is None:
        return None
    return page.template.read_text("utf-8")


@cache
def environment() -> Environment:
    """Return the environment of all templates."""
    templates = Environment(
        loader=ChoiceLoader([FileSystemLoader(TEMPLATES), FunctionLoader(_page_template)]),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    drawing = whisker, symmetric, panels, draw_graph
    templates.globals.update({each.__name__: each for each in (*drawing, cost_text, text_of)})
    templates.globals.update(url=page_url, anchor=page_anchor)
    return templates


def render(page: Page, **variables: Any) -> str:
    """Render a page as HTML; exports pass further variables to the templates."""
    token = _hide.set(key_hider())
    try:
        return (
            environment()
            .get_template(f"{page.head.name}.html")
            .render(page=page.head, data=page.data, **variables)
        )
    finally:
        _hide.reset(token)
