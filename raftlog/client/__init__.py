"""The async client: Producer, Consumer, Admin. Never imports server code."""

from raftlog.client.admin import Admin
from raftlog.client.consumer import Consumer
from raftlog.client.producer import Producer
from raftlog.client.sender import RecordMetadata

__all__ = ["Admin", "Consumer", "Producer", "RecordMetadata"]
