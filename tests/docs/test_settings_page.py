"""docs/reference/settings.md names every setting with its true default, and its examples load."""

from __future__ import annotations

import re
import types
from collections.abc import Iterator
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Union, get_args, get_origin, get_type_hints

import pytest

from raftlog.cli.cluster_plan import to_toml
from raftlog.config import NodeConfig

DOCS = (Path(__file__).parents[2] / "docs" / "reference" / "settings.md").read_text("utf-8")
ROWS = dict(re.findall(r"^\| `([a-z_.]+)` \| (.+?) \| .+ \|$", DOCS, re.MULTILINE))


def _section(hint: Any) -> type | None:
    """Return the dataclass behind a hint, through tuple[...] and unions with None."""
    if get_origin(hint) in {tuple, Union, types.UnionType}:
        return next((found for argument in get_args(hint) if (found := _section(argument))), None)
    return hint if isinstance(hint, type) and is_dataclass(hint) else None


def settings(cls: type, prefix: str = "") -> Iterator[tuple[str, str]]:
    """Yield every setting and its default as the document writes it."""
    hints = get_type_hints(cls)
    for field in fields(cls):
        name = prefix + field.name
        section = _section(hints[field.name])
        if section is None or get_origin(hints[field.name]) is tuple:
            yield name, _shown(field)
        if section is not None:
            yield from settings(section, f"{name}.")


def _shown(field: Any) -> str:
    if field.default is None:
        return "none"
    if field.default is not MISSING:
        return "`" + to_toml({"": field.default}).partition(" = ")[2].strip() + "`"
    return "required" if field.default_factory is MISSING else "`{}`"


def test_every_setting_is_documented_with_its_default_and_no_other():
    assert {name: default for name, default in ROWS.items() if name.islower()} == dict(settings(NodeConfig))


@pytest.mark.parametrize("example", re.findall(r"```toml\n(.*?)```", DOCS, re.DOTALL))
def test_the_examples_load(tmp_path: Path, example: str):
    path = tmp_path / "node.toml"
    path.write_text(example)
    assert NodeConfig.load(path).cluster_id
