"""Kafka's names of settings, and the settings here."""

from __future__ import annotations

from dataclasses import fields

import pytest

from raftlog.broker.kafka.config_names import (
    BY_NAME,
    DEFAULTS,
    FIXED,
    FIXED_BY_NAME,
    LONG_MAX,
    SETTINGS,
    parsed,
    require_fixed,
    shown,
    unknown,
)
from raftlog.config import TopicConfig
from raftlog.errors import ConfigError, ErrorCode


def test_every_setting_of_topics_has_one_name():
    assert sorted(setting.ours for setting in SETTINGS) == sorted(field.name for field in fields(TopicConfig))


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda setting: setting.name)
def test_a_default_that_is_described_can_be_set(setting):
    assert parsed(setting, shown(setting, DEFAULTS[setting.ours])) == DEFAULTS[setting.ours]


@pytest.mark.parametrize("fixed", FIXED, ids=lambda fixed: fixed.name)
def test_the_only_value_is_accepted_and_another_says_what_to_do(fixed):
    require_fixed(fixed, fixed.value)
    with pytest.raises(ConfigError) as caught:
        require_fixed(fixed, "zstd" if fixed.name == "compression.type" else "17")
    assert fixed.instead in caught.value.message


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("cleanup.policy", "delete,compact", "compact,delete"),
        ("cleanup.policy", " compact , delete", "compact,delete"),
        ("cleanup.policy", "compact", "compact"),
        ("retention.ms", "-1", -1),
        ("retention.ms", str(LONG_MAX), LONG_MAX),
        ("max.compaction.lag.ms", str(LONG_MAX), -1),
        ("message.timestamp.before.max.ms", str(LONG_MAX), -1),
        ("flush.messages", "1", "batch"),
        ("flush.messages", str(LONG_MAX), "os"),
        ("unclean.leader.election.enable", "TRUE", True),
        ("min.cleanable.dirty.ratio", "1", 1.0),
        ("raftlog.retention.by", "append_time", "append_time"),
    ],
)
def test_values_that_are_accepted(name: str, text: str, value: object):
    assert parsed(BY_NAME[name], text) == value


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("cleanup.policy", ""),
        ("cleanup.policy", "delete,remove"),
        ("retention.ms", ""),
        ("retention.ms", "7d"),
        ("retention.ms", "1_000"),
        ("retention.ms", "-2"),
        ("retention.ms", str(LONG_MAX + 1)),
        ("retention.ms", "9" * 5_000),
        ("retention.ms", "٣"),
        ("min.cleanable.dirty.ratio", "nan"),
        ("min.cleanable.dirty.ratio", "2"),
        ("min.cleanable.dirty.ratio", "0." + "1" * 5_000),
        ("unclean.leader.election.enable", "1"),
        ("max.message.bytes", "1"),
        ("flush.messages", "10000"),
        ("raftlog.retention.by", "size"),
        ("min.insync.replicas", "0"),
        ("segment.bytes", str(2**31)),
    ],
)
def test_other_values_are_refused_under_kafkas_name(name: str, text: str):
    with pytest.raises(ConfigError) as caught:
        parsed(BY_NAME[name], text)
    assert name in caught.value.message
    assert len(caught.value.message) < 300
    assert caught.value.code is ErrorCode.INVALID_CONFIG


def test_our_own_spelling_gets_kafkas_name_as_advice():
    assert "did you mean retention.ms?" in unknown("retention_ms").message
    assert "did you mean" not in unknown("nothing").message
    assert len(unknown("x" * 10_000).message) < 300


def test_no_name_is_in_both_tables():
    assert not BY_NAME.keys() & FIXED_BY_NAME.keys()
