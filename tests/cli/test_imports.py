"""What processes load: a controller needs neither pyarrow nor what Spark brings, and help needs next to nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from raftlog.cli.local_cluster import LocalCluster

LOADED = "; import sys; print(*{name.partition('.')[0] for name in sys.modules})"


def loaded_by(code: str) -> set[str]:
    done = subprocess.run([sys.executable, "-c", code + LOADED], check=True, capture_output=True, text=True, timeout=60)
    return set(done.stdout.splitlines()[-1].split())


CONTROLLER = """
import raftlog.cli.main, raftlog.cli.server, raftlog.broker.node
from raftlog.metadata_quorum.controller_node import ControllerNode
"""


def test_a_controller_loads_no_pyarrow():
    loaded = loaded_by(CONTROLLER.strip())
    assert "pysyncobj" in loaded
    assert not loaded & {"pyarrow", "numpy", "pandas", "pyspark"}


@pytest.mark.cluster
def test_a_running_controller_maps_no_arrow(shared_cluster: LocalCluster):
    mapped = {
        name: "libarrow" in Path(f"/proc/{shared_cluster.pid(name)}/maps").read_text() for name in shared_cluster.names
    }
    assert {name for name, arrow in mapped.items() if arrow} == set(shared_cluster.brokers)


def test_help_loads_no_subcommand():
    help_ = "from raftlog.cli.main import cli; cli(['--help'], standalone_mode=False)"
    assert not loaded_by(help_) & {"pyarrow", "aiohttp", "rich", "asyncio"}


@pytest.mark.parametrize("module", ["raftlog.client.admin", "raftlog.cli.topics"])
def test_administrators_load_no_pyarrow(module: str):
    assert not loaded_by(f"import {module}") & {"pyarrow", "numpy", "pandas"}


def test_a_broker_keeps_pyarrow_from_loading_numpy_and_pandas():
    code = "from raftlog.broker import node; node.keep_pyarrow_small(); import raftlog.broker.broker_node, pyarrow; "
    loaded = loaded_by(code + "pyarrow.array([b'one'])")
    assert "pyarrow" in loaded
    assert not loaded & {"numpy", "pandas"}


HEAVY = {"pyarrow", "numpy", "pandas", "pyspark", "pysyncobj", "click", "rich", "aiohttp"}


def test_clients_are_imported_without_what_they_need_only_when_they_are_used():
    assert not loaded_by("from raftlog import Admin, Consumer, Producer; import raftlog.blocking") & HEAVY
    assert not loaded_by("from raftlog import read_arrow, read_pandas, scan_polars") & {*HEAVY, "polars"}


@pytest.mark.parametrize("make", ["Consumer('http://127.0.0.1:1', 'topic')", "Producer('http://127.0.0.1:1')"])
def test_clients_load_arrow_when_they_are_made_and_never_pandas_or_a_server(make: str):
    assert loaded_by(f"import raftlog; raftlog.{make}") & HEAVY - {"numpy"} == {"pyarrow", "aiohttp"}
