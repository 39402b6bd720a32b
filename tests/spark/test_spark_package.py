"""What Spark meets when it looks for data sources."""

from __future__ import annotations

import subprocess
import sys

import pytest
from pyspark.sql.datasource import DataSource

import pyspark_raftlog


def test_the_package_is_what_spark_looks_for():
    assert pyspark_raftlog.__name__.startswith("pyspark_")
    assert issubclass(pyspark_raftlog.DefaultSource, DataSource)
    assert pyspark_raftlog.DefaultSource.name() == "raftlog"


def test_the_lookup_loads_nothing_that_could_fail():
    script = "import sys, pyspark_raftlog; print([m for m in ('raftlog', 'aiohttp', 'orjson') if m in sys.modules])"

    found = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)

    assert found.stdout.strip() == "[]"


@pytest.mark.spark
def test_the_source_may_be_registered_by_hand(spark, log):
    log.create("t")
    log.append("t", [b"x"] * 3)

    pyspark_raftlog.register(spark)

    assert spark.read.format("raftlog").options(bootstrap=log.url, subscribe="t").load().count() == 3


@pytest.mark.parametrize(("program", "kept_out"), [("pyspark.daemon", True), ("somebody.else", False)])
def test_what_a_worker_imported_is_not_walked_through_after_each_task(program: str, kept_out: bool):
    script = (
        "import gc, sys; from importlib.machinery import ModuleSpec\n"
        f"sys.modules['__main__'].__spec__ = ModuleSpec({program!r}, None)\n"
        "from pyspark_raftlog.background import background\n"
        "background(); print(gc.get_freeze_count())"
    )

    found = subprocess.run([sys.executable, "-W", "ignore", "-c", script], capture_output=True, text=True, check=True)

    assert (int(found.stdout) > 10_000) is kept_out
