"""Every architecture decision record is listed in the index, under its own title."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2] / "docs" / "adr"


def test_the_index_lists_every_record_with_its_title():
    titles = {}
    for page in sorted(ROOT.glob("[0-9]*.md")):
        number, title = page.read_text().splitlines()[0].removeprefix("# ").split(": ", 1)
        assert page.name.startswith(f"{number}-")
        titles[page.name] = title

    index = (ROOT / "README.md").read_text()
    assert dict(re.findall(r"\| \[\d{4}\]\((.+?)\) \| (.+?) \|", index)) == titles
