"""The site's navigation, from the links of the index pages: they need no markup that the repository would show.

Also the names of commands in the reference of the command line, and the page `index.html` that leads to the start page,
which is in the folder `docs/` as in the repository.
"""

from __future__ import annotations

import re
from pathlib import Path

from docutils import nodes
from sphinx.application import Sphinx

COMMANDS = "docs/reference/command-line"
COMMAND = re.compile(r"raftlog(?: [a-z][a-z-]*)*")
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


def name_commands(app: Sphinx, doctree: nodes.document) -> None:
    """Give the section of each command its whole name, as in its usage: `raftlog topics create`, not `create`."""
    if app.env.docname != COMMANDS:
        return
    for section in doctree.findall(nodes.section):
        usage = next((block for block in section.children if isinstance(block, nodes.literal_block)), None)
        title = section.next_node(nodes.title)
        if usage is not None and title is not None and (found := COMMAND.match(usage.astext())):
            title.replace_self(nodes.title("", found[0]))


def lead_to_the_start(app: Sphinx, error: Exception | None) -> None:
    """Write `index.html` beside the folder of the pages."""
    if error is None and app.builder.format == "html":
        (Path(app.outdir) / "index.html").write_text(START, "utf-8")


def setup(app: Sphinx) -> dict[str, bool]:
    """Register them."""
    app.connect("source-read", add_navigation)
    app.connect("doctree-read", name_commands)
    app.connect("build-finished", lead_to_the_start)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
