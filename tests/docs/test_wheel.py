"""The wheel says that it is typed, and has what the client needs."""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]


def test_the_wheel_is_typed_and_asks_the_client_for_little(tmp_path: Path):
    wheels = pytest.importorskip("hatchling.builders.wheel", reason="hatchling is not installed: make install")
    (built,) = wheels.WheelBuilder(str(ROOT)).build(directory=str(tmp_path), versions=["standard"])
    with ZipFile(built) as wheel:
        names = set(wheel.namelist())
        (metadata,) = [wheel.read(name).decode() for name in names if name.endswith(".dist-info/METADATA")]
    assert {"raftlog/py.typed", "raftlog/blocking/consumer.py", "pyspark_raftlog/py.typed"} <= names
    assert "raftlog/broker/console/static/index.html" in names
    needed = [line for line in metadata.splitlines() if line.startswith("Requires-Dist:") and "extra ==" not in line]
    assert [line.split()[1].split(">")[0] for line in needed] == ["aiohttp", "fastcrc", "orjson", "pyarrow"]
