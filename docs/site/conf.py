"""Settings of the documentation site: `make docs` builds it with Sphinx, from the Markdown that the repository shows.

The source folder is the repository, so that links between pages, and to code, are the same in both. Nothing is loaded
from the network when the site is built or read: the theme has its fonts and scripts, diagrams are SVG.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT), str(ROOT / "spark")]

project = "raftlog"
author = "The raftlog developers"
copyright = author  # noqa: A001  (Sphinx's name)

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx_click", "diagrams", "docstrings", "pages"]
root_doc = "docs/index"
include_patterns = ["docs/**.md", "*.md", "benchmarks/**.md"]
exclude_patterns = [".venv", ".tools", "build", "dist", "**/.*", "spark-warehouse", "raftlog-data"]
suppress_warnings = ["toc.not_included"]

myst_enable_extensions = ["colon_fence"]
myst_fence_as_directive = ["mermaid"]
myst_heading_anchors = 4

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_default_options = {"members": True}
maximum_signature_line_length = 80
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = "raftlog"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
pygments_style = "default"
pygments_dark_style = "monokai"
