"""What a consumer of Kafka's with `read_committed` finds in a topic."""

from __future__ import annotations

import time

import confluent_kafka
from confluent_kafka import KafkaError, Message, TopicPartition

from raftlog.cli.local_cluster import LocalCluster

SOON_S = 30


def servers(cluster: LocalCluster) -> str:
    """Return what Kafka's clients take as `bootstrap.servers`."""
    return cluster.bootstrap.replace("http://", "")


def committed_records(cluster: LocalCluster, topic: str, partitions: int) -> list[Message]:
    """Return the committed records up to the end of each partition; those of one partition are in order."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": servers(cluster),
            "group.id": "none",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    consumer.assign([TopicPartition(topic, one, confluent_kafka.OFFSET_BEGINNING) for one in range(partitions)])
    found, ended, deadline = list[Message](), set[int](), time.monotonic() + SOON_S
    while len(ended) < partitions and time.monotonic() < deadline:
        message = consumer.poll(1)
        if message is None:
            continue
        if message.error() is None:
            found.append(message)
        elif message.error().code() == KafkaError._PARTITION_EOF:
            ended.add(message.partition())
        else:
            assert message.error().retriable(), message.error()
    consumer.close()
    assert len(ended) == partitions
    return found
