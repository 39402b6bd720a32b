"""The client without async, from plain threads."""

from __future__ import annotations

import threading

import pytest

from raftlog import blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import ConfigError, NotFoundError

pytestmark = pytest.mark.cluster


def test_all_three_classes(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.bootstrap
    threads = threading.active_count()
    with blocking.Admin(url) as admin, blocking.Producer(url) as producer:
        assert admin.create_topic(topic_name, partitions=1).topic == topic_name
        assert producer.send(topic_name, b"0", key=b"k").offset == 0
        futures = [producer.send_nowait(topic_name, b"%d" % number) for number in range(1, 4)]
        producer.flush()
        assert sorted(future.result().offset for future in futures) == [1, 2, 3]
        assert [metadata.offset for metadata in producer.send_many(topic_name, [b"4", b"5"])] == [4, 5]
        with blocking.Consumer(url, topic_name, start="earliest") as consumer:
            records = iter(consumer)
            assert {next(records).value for _ in range(6)} == {b"%d" % number for number in range(6)}
            consumer.seek(topic_name, 0, 4)
            assert consumer.fetch_arrow().column("offset").to_pylist() == [4, 5]
            assert consumer.position(topic_name, 0) == 6
        admin.delete_topic(topic_name)

    assert threading.active_count() == threads


def test_errors_come_out_and_nothing_stays_behind(shared_cluster: LocalCluster):
    threads = threading.active_count()

    with pytest.raises(NotFoundError):
        blocking.Consumer(shared_cluster.bootstrap, "none")
    with pytest.raises(ConfigError):
        blocking.Producer("ftp://x")

    assert threading.active_count() == threads


def test_transactions(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.bootstrap
    with blocking.Admin(url) as admin, blocking.Producer(url, transactional_id=topic_name) as producer:
        admin.create_topic(topic_name, partitions=1)
        with producer.transaction() as transaction:
            producer.send(topic_name, b"kept")
            transaction.send_offsets({(topic_name, 0): 1}, f"group-of-{topic_name}")
        with pytest.raises(ZeroDivisionError), producer.transaction():  # noqa: PT012
            producer.send(topic_name, b"dropped")
            _ = 1 / 0
        with producer.transaction():
            producer.send(topic_name, b"kept, too")
    with blocking.Consumer(url, topic_name, start="earliest", isolation="read_committed") as consumer:
        records = iter(consumer)
        assert [next(records).value for _ in range(2)] == [b"kept", b"kept, too"]
