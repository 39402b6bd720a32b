"""Every message of Kafka's protocol in every version: golden bytes, round trips, and kio as a second opinion."""

from __future__ import annotations

import os
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka_messages import GOLDEN, NAMES, VERSIONS, Builder, Dice, bare, encoded, full, generator, golden, subject
from kio_messages import decoded_by_kio, encoded_by_kio, to_kio

from raftlog.wire.kafka.api_keys import APIS
from raftlog.wire.kafka.errors import KafkaProtocolError
from raftlog.wire.kafka.framing import RequestHeader, decode_request, decode_request_header, encode_request

ROOT = Path(__file__).parents[3]
KINDS = {"full": full, "bare": bare}


def test_golden_bytes_of_every_version():
    """kio made the bytes once; REWRITE=1 lets it make them again."""
    if os.environ.get("REWRITE"):
        lines = [
            f"{name} {version} {kind} {encoded_by_kio(name, version, make(name, version)).hex()}\n"
            for name, version in VERSIONS
            for kind, make in KINDS.items()
        ]
        GOLDEN.write_text("".join(lines))
    seen = set()
    for name, version, kind, data in golden():
        message = KINDS[kind](name, version)
        assert encoded(name, version, message) == data, f"{name} v{version} {kind}"
        assert subject(name).codec.decode(version, data, ends=True) == message
        seen.add((name, version, kind))
    assert seen == {(name, version, kind) for name, version in VERSIONS for kind in KINDS}


def test_the_table_has_every_version_of_every_api():
    assert {(f"{api.name}{kind}", version) for api in APIS.values() for kind in ("Request", "Response")
            for version in range(api.first, api.last + 1)} == {
        (name, version) for name, version in VERSIONS if not name.startswith("ConsumerProtocol")
    }  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_messages_come_back_as_they_were(name: str):
    versions = subject(name).message.all_versions

    @settings(max_examples=4 + 2 * len(versions), deadline=None, database=None)
    @given(st.sampled_from(versions), st.binary(max_size=300))
    def check(version: int, data: bytes) -> None:
        message = Builder(name, version, Dice(data)).message()
        assert subject(name).codec.decode(version, encoded(name, version, message), ends=True) == message

    check()


@pytest.mark.parametrize("chosen", range(5))
def test_kio_reads_and_writes_the_same_bytes(chosen: int):
    dice = random.Random(chosen)
    for name, version in VERSIONS:
        message = Builder(name, version, Dice(dice.randbytes(400))).message()
        data = encoded(name, version, message)
        assert encoded_by_kio(name, version, message) == data, f"{name} v{version}"
        assert decoded_by_kio(name, version, data) == to_kio(name, version, message)


@pytest.mark.parametrize(("name", "version"), [one for one in VERSIONS if one[0].endswith("Request")][::7])
def test_requests_come_back_with_their_headers(name: str, version: int):
    key = subject(name).message.api_key
    assert key is not None
    header = RequestHeader(key, version, -7, "client \u00e9")
    frame = b"".join(encode_request(header, full(name, version)))[4:]
    found, at = decode_request_header(frame)
    assert (found, decode_request(found, frame, at)) == (header, full(name, version))


def test_the_generator_makes_the_modules_that_are_committed():
    made = generator.modules()
    folder = ROOT / generator.FOLDER
    assert {str(path.relative_to(ROOT)) for path in folder.glob("*.py")} == set(made)
    for name, source in made.items():
        assert (ROOT / name).read_text("utf-8") == source, f"run scripts/generate_kafka_messages.py: {name} differs"


@pytest.mark.parametrize(
    ("name", "version", "field", "value"),
    [
        ("MetadataRequest", 0, "allow_auto_topic_creation", False),
        ("JoinGroupRequest", 2, "group_instance_id", "i"),
        ("InitProducerIdRequest", 2, "producer_id", 5),
        ("OffsetFetchRequest", 7, "groups", [subject("OffsetFetchRequest").struct("OffsetFetchRequestGroup")()]),
    ],
)
def test_a_field_that_the_version_lacks_is_not_lost_in_silence(name: str, version: int, field: str, value: Any):
    message = bare(name, version)
    setattr(message, field, value)
    with pytest.raises(KafkaProtocolError, match=field):
        encoded(name, version, message)
