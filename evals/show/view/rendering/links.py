"""Links and anchors of the pages: relative to a page, or within the one page of a single file."""

import re

from jinja2 import pass_context
from jinja2.runtime import Context

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
