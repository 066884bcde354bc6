"""Templates of the viewer and their links: values are escaped, keys hidden, control characters made visible."""

import re
from collections.abc import Callable
from contextvars import ContextVar
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, pass_context
from jinja2.runtime import Context

from emend.evals.show.report.secondary import cost_text
from emend.evals.show.view.geometry import draw_graph, panels, symmetric, whisker
from emend.evals.show.view.pages.common import text_of
from emend.evals.show.view.views import Page
from emend.memory.escape import visible_controls
from emend.memory.redaction import hide_keys, key_hider

LEFT_OUT = "left-out.html"
"""Page of an export to which links lead whose page is not in it."""
_UNFIT = re.compile(r"[^A-Za-z0-9]+")


@pass_context
def page_url(context: Context, link: str) -> str:
    """A link from the viewer's root, as the page that shows it writes it."""
    path, _, place = link.partition("#")
    exported = context.get("exported")
    if exported is not None and path not in exported and not path.startswith("static/"):
        path, place = LEFT_OUT, ""
    if context.get("single") is None:
        return f"{context['page'].root}{path}" + (f"#{place}" if place else "")
    return f"#{page_key(path)}--{place}" if place else f"#{page_key(path)}"


@pass_context
def page_anchor(context: Context, name: str) -> str:
    """The id of a part of the page; in a file that holds all pages, with the page's key before it."""
    key = context.get("single")
    return name if key is None else f"{key}--{name}"


def page_key(path: str) -> str:
    """The id of a page in a file that holds all pages."""
    return _UNFIT.sub("-", path.removesuffix(".html"))


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
