"""Templates of the viewer: every value is escaped, keys are hidden and control characters made visible."""

from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from emend.evals.show.report.tables.secondary import cost_text
from emend.evals.show.view.pages.common import text_of
from emend.evals.show.view.rendering.geometry import draw_graph, panels, symmetric, whisker
from emend.evals.show.view.rendering.links import page_anchor, page_url
from emend.evals.show.view.views.page import Page
from emend.memory.escape import visible_controls
from emend.memory.redaction import hide_keys, key_hider

TEMPLATES, STATIC = Path(__file__).with_name("templates"), Path(__file__).with_name("static")


_hide: ContextVar[Callable[[str], str]] = ContextVar("hide", default=hide_keys)
"""Hides the keys that were known when a page began to be rendered."""


def _finalize(value: Any) -> Any:
    """Make a text of a run harmless; what templates made themselves is markup already, and stays."""
    return visible_controls(_hide.get()(value)) if type(value) is str else value


@cache
def environment() -> Environment:
    """The environment of all templates."""
    templates = Environment(
        loader=FileSystemLoader(TEMPLATES),
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
    """A page as HTML; an export gives its templates more variables."""
    token = _hide.set(key_hider())
    try:
        return environment().get_template(f"{page.head.name}.html").render(page=page.head, data=page.data, **variables)
    finally:
        _hide.reset(token)
