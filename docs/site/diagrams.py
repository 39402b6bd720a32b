"""Diagrams: each fenced block `mermaid` becomes an SVG when the site is built, by Mermaid in a headless Chromium.

Mermaid's script and the browser are what `scripts/install-docs.sh` has installed; nothing is fetched. SVGs are kept by
the hash of their text, so that a build draws only what is new.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).parents[2]
MERMAID = Path(os.environ.get("MERMAID_JS", ROOT / ".tools" / "mermaid.min.js"))
KEPT = ROOT / "build" / "docs" / "diagrams"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FENCE = re.compile(r"^ *```mermaid\n(.*?)^ *```", re.DOTALL | re.MULTILINE)
DRAWN = re.compile(r'<pre id="drawn">(.*?)</pre>', re.DOTALL)
PAGE = """<!DOCTYPE html><meta charset="utf-8"><body><script src="mermaid.min.js"></script><script>
(async () => {
  const drawn = {};
  mermaid.initialize({startOnLoad: false, theme: "neutral", htmlLabels: false,
    flowchart: {htmlLabels: false, wrappingWidth: 400},
    fontFamily: "sans-serif", deterministicIds: true, sequence: {mirrorActors: false}});
  for (const [id, text] of Object.entries(DIAGRAMS)) {
    try { drawn[id] = {svg: (await mermaid.render("d" + id, text)).svg}; }
    catch (error) { drawn[id] = {error: String(error)}; }
  }
  document.body.innerHTML = "";
  const out = document.createElement("pre");
  out.id = "drawn";
  out.textContent = btoa(unescape(encodeURIComponent(JSON.stringify(drawn))));
  document.body.append(out);
})();
</script>"""


class Diagram(SphinxDirective):
    """One diagram of a page."""

    has_content = True

    def run(self) -> list[nodes.Node]:
        """Return the SVG, and for other formats its text."""
        text = "\n".join(self.content)
        svg = (KEPT / f"{key_of(text)}.svg").read_text("utf-8")
        return [nodes.raw("", f'<figure class="diagram">{svg}</figure>', format="html")]


def key_of(text: str) -> str:
    """Return the name under which the SVG of `text` is kept."""
    lines = [line.strip() for line in text.strip().splitlines()]
    return hashlib.sha256("\n".join(["3", *lines]).encode()).hexdigest()[:16]


def draw_all(app: Sphinx) -> None:
    """Draw the diagrams of all pages that are not drawn yet, in one run of the browser."""
    KEPT.mkdir(parents=True, exist_ok=True)
    texts = {
        key_of(text): text.strip()
        for name in sorted(app.project.discover())
        for text in FENCE.findall(Path(app.project.doc2path(name, absolute=True)).read_text("utf-8"))
    }
    missing = {key: text for key, text in texts.items() if not (KEPT / f"{key}.svg").exists()}
    if not missing:
        return
    for key, drawn in _draw(missing).items():
        if "error" in drawn:
            raise ExtensionError(f"Mermaid cannot draw this diagram: {drawn['error']}\n{texts[key]}")
        (KEPT / f"{key}.svg").write_text(drawn["svg"], "utf-8")


def _draw(texts: dict[str, str]) -> dict[str, Any]:
    browser = next((found for name in BROWSERS if (found := shutil.which(name))), None)
    if browser is None or not MERMAID.exists():
        raise ExtensionError(f"diagrams need Chromium and {MERMAID}: run `make docs`")
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(MERMAID, Path(folder) / "mermaid.min.js")
        page = Path(folder) / "page.html"
        page.write_text(PAGE.replace("DIAGRAMS", json.dumps(texts).replace("</", "<\\/")), "utf-8")
        options = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder}/profile"]
        command = [browser, *options, "--virtual-time-budget=60000", "--dump-dom", page.as_uri()]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180, check=False)  # noqa: S603
    found = DRAWN.search(done.stdout)
    if found is None:
        raise ExtensionError(f"Chromium drew nothing: {done.stderr[-2000:]}")
    drawn: dict[str, Any] = json.loads(base64.b64decode(found[1]))
    return drawn


def setup(app: Sphinx) -> dict[str, bool]:
    """Register the directive."""
    app.add_directive("mermaid", Diagram)
    app.connect("builder-inited", draw_all)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
