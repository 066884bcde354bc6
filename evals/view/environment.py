"""Templates of the viewer: every value is escaped, keys are hidden and control characters made visible."""

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from emend.evals.report.escape import safe
from emend.evals.view.records import Page

TEMPLATES, STATIC = Path(__file__).with_name("templates"), Path(__file__).with_name("static")


def _finalize(value: Any) -> Any:
    """Make a text of a run harmless; what templates made themselves is markup already, and stays."""
    return safe(value) if type(value) is str else value


@cache
def environment() -> Environment:
    """The environment of all templates."""
    return Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def render(page: Page) -> str:
    """A page as HTML."""
    return environment().get_template(page.template).render(page.context)
