"""Spark over raftlog beside Spark over Parquet, and Spark's own Kafka source on a real Kafka: same records, one run."""
