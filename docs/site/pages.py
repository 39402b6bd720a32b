"""The site's navigation, from the links of the index pages: they need no markup that the repository would show.

Also the page `index.html` that leads to the start page, which is in the folder `docs/` as in the repository.
"""

from __future__ import annotations

import re
from pathlib import Path

from sphinx.application import Sphinx

LINK = re.compile(r"\]\(([\w./-]+\.md)\)")
TOP = ["tutorials/index.md", "how-to/index.md", "reference/index.md", "explanation/index.md", "contributing/index.md"]
TOP += ["adr/README.md"]
INDEXES = {name.removesuffix(".md") for name in TOP}
START = (
    '<!DOCTYPE html><meta charset="utf-8"><meta http-equiv="refresh" content="0; url=docs/index.html">'
    "<title>raftlog</title>\n"
)


def add_navigation(app: Sphinx, docname: str, source: list[str]) -> None:
    """Append a hidden toctree of the pages that an index page links to."""
    inside = docname.removeprefix("docs/")
    if docname == app.config.root_doc:
        children = TOP
    elif inside in INDEXES:
        beyond = inside == "contributing/index"
        children = [name for name in dict.fromkeys(LINK.findall(source[0])) if beyond or not name.startswith("..")]
    else:
        return
    source[0] += "\n\n```{toctree}\n:hidden:\n\n" + "\n".join(children) + "\n```\n"


def lead_to_the_start(app: Sphinx, error: Exception | None) -> None:
    """Write `index.html` beside the folder of the pages."""
    if error is None and app.builder.format == "html":
        (Path(app.outdir) / "index.html").write_text(START, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register both."""
    app.connect("source-read", add_navigation)
    app.connect("build-finished", lead_to_the_start)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
