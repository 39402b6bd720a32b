"""Spark data source for raftlog: `spark.read.format("raftlog")` and `spark.readStream.format("raftlog")`.

Spark finds this package by its name (`pyspark_*` with a `DefaultSource`), without registration. It imports the package
in each look-up of any Python source: keep this file small, because a failure here breaks every Python source.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_raftlog.source import DefaultSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DefaultSource", "register"]


def register(spark: SparkSession) -> None:
    """Register the source: only needed where Spark's look-up by package name is off."""
    spark.dataSource.register(DefaultSource)
