"""The client without async, from plain threads."""

from __future__ import annotations

import threading

import pytest

from raftlog import blocking
from raftlog.cli.local_cluster import LocalCluster
from raftlog.errors import ConfigError, NotFoundError, RaftlogError
from raftlog.model import Acl

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


def test_administration(shared_cluster: LocalCluster, topic_name: str):
    url = shared_cluster.bootstrap
    with blocking.Admin(url) as admin, blocking.Producer(url) as producer:
        assert admin.create_topic(topic_name, partitions=2, validate_only=True).topic_id == ""
        with pytest.raises(NotFoundError):
            admin.describe_topic(topic_name)
        admin.create_topic(topic_name, partitions=1)
        producer.send_many(topic_name, [b"1", b"2", b"3"])
        assert [each.offset for each in admin.list_offsets(topic_name)] == [3]
        assert [each.offset for each in admin.list_offsets(topic_name, "earliest", partitions=[0])] == [0]
        assert admin.delete_records(topic_name, 0, before=2) == 2
        assert [each.log_start_offset for each in admin.list_offsets(topic_name)] == [2]
        assert [broker.broker_id for broker in admin.log_dirs()] == [1, 2, 3]
        assert admin.reassignments() == []
        assert admin.controller().controller_id in (101, 102, 103)
        assert admin.find_coordinator("group", topic_name).broker_id in (1, 2, 3)

        admin.alter_group_offsets(topic_name, {(topic_name, 0): 2})
        assert list(admin.group_lag(topic_name).values()) == [1]
        with blocking.Consumer(url, topic_name, group_id=topic_name) as consumer:
            assert [record.value for record in consumer.fetch(max_wait_ms=10_000)] == [b"3"]
            consumer.seek_to_committed()
            assert consumer.position(topic_name, 0) == 2
            consumer.seek_to("latest")
            assert consumer.position(topic_name, 0) == 3
            consumer.commit_nowait({(topic_name, 0): 3}).result(timeout=10)
            assert consumer.group_metadata.group_id == topic_name
        admin.delete_group_offsets(topic_name, [(topic_name, 0)])
        assert admin.group_offsets(topic_name) == {}

        rule = Acl(principal=topic_name, operation="read", resource_type="topic", resource_name="*")
        admin.create_acls([rule])
        assert admin.acls(principal=topic_name) == admin.delete_acls(principal=topic_name) == [rule]
        admin.put_user(topic_name, "long enough")
        assert topic_name in [user.user for user in admin.users()]
        admin.delete_user(topic_name)
        admin.alter_quota({"request_rate": 5}, user=topic_name)
        assert [quota.limits for quota in admin.quotas() if quota.user == topic_name] == [{"request_rate": 5}]
        admin.alter_quota({"request_rate": None}, user=topic_name)
        assert admin.alter_broker_configs({"retention_ms": 77_000_000}, 2) == {"retention_ms": 77_000_000}
        assert admin.alter_broker_configs({"retention_ms": None}, 2) == admin.broker_configs(2) == {}
        with pytest.raises(RaftlogError):
            admin.unregister_broker(1)


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
        producer.init_transactions()
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
