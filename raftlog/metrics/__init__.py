"""The table of every metric, what nodes observe with, and the page that Prometheus reads.

No metric exists outside `TABLE`: `Page` refuses other names. The reference, the dashboards and the alerts are made from
the same table.
"""

from raftlog.metrics.instruments import Histogram
from raftlog.metrics.metric import BYTES, RECORDS, SECONDS, Metric
from raftlog.metrics.node_table import PROCESS_TABLE, QUORUM_TABLE
from raftlog.metrics.page import CONTENT_TYPE, Page
from raftlog.metrics.replica_table import REPLICA_TABLE
from raftlog.metrics.request_table import REQUEST_TABLE

TABLE: tuple[Metric, ...] = (*REQUEST_TABLE, *REPLICA_TABLE, *QUORUM_TABLE, *PROCESS_TABLE)
METRICS = {metric.name: metric for metric in TABLE}

__all__ = ["BYTES", "CONTENT_TYPE", "METRICS", "RECORDS", "SECONDS", "TABLE", "Histogram", "Metric", "Page"]
