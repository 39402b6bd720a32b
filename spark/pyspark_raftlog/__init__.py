"""Spark data source for raftlog: `spark.read.format("raftlog")`."""
