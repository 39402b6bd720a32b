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
