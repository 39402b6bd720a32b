"""Settings, users, rules, quotas and features: what is accepted, and what changes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from metadata_support import TOPIC_ID, cluster, decided, with_partition
from test_controller_decisions import refused

from raftlog.config import TopicConfig
from raftlog.errors import ErrorCode, InvalidRequestError, RaftlogError
from raftlog.metadata_quorum.assignments import Assignments
from raftlog.metadata_quorum.controller import security
from raftlog.metadata_quorum.controller.cluster_settings import decide_broker_configs, decide_features, first_records
from raftlog.metadata_quorum.controller.reassignment import decide_reassignment
from raftlog.metadata_quorum.controller.security import (
    decide_acl_deletion,
    decide_acls,
    decide_quota,
    decide_user,
    decide_user_deletion,
)
from raftlog.metadata_quorum.controller.topics import TopicDefaults, decide_alteration, decide_creation
from raftlog.metadata_quorum.image import MetadataImage
from raftlog.metadata_quorum.records import (
    FEATURE_LEVEL,
    LATER_OPERATIONS,
    SHA_512_CREDENTIALS,
    IdentifyCluster,
    SetFeatureLevel,
)
from raftlog.metadata_quorum.replay import replay
from raftlog.model import Acl, AclOperation, ScramVerifier, UserCredential
from raftlog.wire.admin import (
    AclFilter,
    AclsRequest,
    AlterTopicRequest,
    BrokerConfigsRequest,
    DeleteUserRequest,
    FeaturesBody,
    PutUserRequest,
    QuotaRequest,
    ReassignmentRequest,
    ReassignPartition,
)
from raftlog.wire.metadata import CreateTopicRequest


class TestTopics:
    image = with_partition(cluster(), isr=(1, 2), leader=1)

    def alter(self, image: MetadataImage, **change: object):
        return decide_alteration(image, AlterTopicRequest(topic="t", **change))  # type: ignore[arg-type]

    def test_settings_are_changed_and_removed(self):
        image = decided(self.image, self.alter(self.image, configs={"retention_ms": "500", "segment_ms": 7}))
        assert image.topics[TOPIC_ID].configs == {"retention_ms": 500, "segment_ms": 7}
        image = decided(image, self.alter(image, configs={"retention_ms": None}))
        assert image.topics[TOPIC_ID].configs == {"segment_ms": 7}

    def test_what_is_so_already_takes_no_record(self):
        image = decided(self.image, self.alter(self.image, configs={"segment_ms": 7}))
        assert self.alter(image, configs={"segment_ms": 7, "retention_ms": None}).records == ()

    @pytest.mark.parametrize(
        ("change", "code"),
        [
            ({"configs": {"nope": 1}}, ErrorCode.INVALID_CONFIG),
            ({"configs": {"nope": None}}, ErrorCode.INVALID_CONFIG),
            ({"configs": {"segment_ms": 0}}, ErrorCode.INVALID_CONFIG),
            ({"configs": {"min_insync_replicas": 9}}, ErrorCode.INVALID_CONFIG),
            ({"configs": {"flush": None}}, ErrorCode.INVALID_CONFIG),
            ({"partitions": 10_001}, ErrorCode.INVALID_PARTITIONS),
            ({"partitions": 0}, ErrorCode.INVALID_PARTITIONS),
        ],
    )
    def test_what_is_refused(self, change: dict, code: ErrorCode):
        assert refused(lambda: self.alter(self.image, **change)) is code

    def test_partitions_are_added_with_as_many_replicas_and_never_taken_away(self):
        image = decided(self.image, self.alter(self.image, partitions=4))
        partitions = image.topics[TOPIC_ID].partitions
        assert sorted(partitions) == [0, 1, 2, 3]
        assert partitions[0] == self.image.topics[TOPIC_ID].partitions[0]
        assert all(len(partitions[number].replicas) == 3 for number in (1, 2, 3))
        assert refused(lambda: self.alter(image, partitions=3)) is ErrorCode.INVALID_PARTITIONS

    def test_partitions_that_are_added_while_others_move_have_as_many_replicas_as_those_will_have(self):
        image = with_partition(cluster(range(1, 7)), isr=(1, 2, 3), leader=1)
        move = ReassignPartition(topic="t", partition=0, replicas=(4, 5))
        image = decided(image, decide_reassignment(image, ReassignmentRequest(partitions=(move,))))
        image = decided(image, self.alter(image, partitions=3))
        assert [len(image.topics[TOPIC_ID].partitions[number].replicas) for number in (1, 2)] == [2, 2]

    def test_unknown_topics(self):
        request = AlterTopicRequest(topic="nope")
        assert refused(lambda: decide_alteration(self.image, request)) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION

    def test_what_durability_rests_on_is_written_down_when_a_topic_is_created(self):
        defaults = TopicDefaults(1, 3, TopicConfig(min_insync_replicas=1, unclean_leader_election_enable=True))
        request = CreateTopicRequest(topic="new", configs={"flush": "os"})
        image = decided(cluster(), decide_creation(cluster(), request, topic_id="b" * 32, defaults=defaults))
        assert image.topics["b" * 32].configs == {
            "min_insync_replicas": 1,
            "flush": "os",
            "unclean_leader_election_enable": True,
        }


class TestBrokerConfigs:
    def ask(self, image: MetadataImage, broker: int, **configs: object):
        return decide_broker_configs(image, BrokerConfigsRequest(broker_id=broker, configs=configs))  # type: ignore[arg-type]

    async def test_one_brokers_settings_lie_over_those_of_all(self):
        image = with_partition(cluster(), isr=(1, 2), leader=1)
        image = decided(image, self.ask(image, -1, retention_ms=1, segment_ms=1))
        image = decided(image, self.ask(image, 2, retention_ms=2))
        assert (await Assignments(1).of(image))[0].configs == {"retention_ms": 1, "segment_ms": 1}
        assert (await Assignments(2).of(image))[0].configs == {"retention_ms": 2, "segment_ms": 1}
        topic = decide_alteration(image, AlterTopicRequest(topic="t", configs={"segment_ms": 9}))
        assert (await Assignments(2).of(decided(image, topic)))[0].configs == {"retention_ms": 2, "segment_ms": 9}
        image = decided(image, self.ask(image, 2, retention_ms=None))
        assert 2 not in image.broker_configs

    def test_what_is_refused(self):
        image = cluster()
        assert refused(lambda: self.ask(image, 9, retention_ms=1)) is ErrorCode.RESOURCE_NOT_FOUND
        assert refused(lambda: self.ask(image, 1, nope=1)) is ErrorCode.INVALID_CONFIG
        # Elections on the controllers go by these: no broker may have its own.
        assert refused(lambda: self.ask(image, -1, min_insync_replicas=1)) is ErrorCode.INVALID_CONFIG
        assert self.ask(image, 1, retention_ms=None).records == ()

    def test_only_what_may_be_set_is_removed(self):
        image = cluster()
        assert refused(lambda: self.ask(image, -1, retention_mz=None)) is ErrorCode.INVALID_CONFIG
        assert refused(lambda: self.ask(image, -1, retention_ms=None, flush=None)) is ErrorCode.INVALID_CONFIG
        assert self.ask(image, -1, max_connection_rate=None, retention_ms=None).records == ()
        earlier = replace(image, broker_configs={1: {"flush": "batch", "of_another_version": 1}})
        asked = self.ask(earlier, 1, flush=None, of_another_version=None)
        assert decided(earlier, asked).broker_configs == {}

    @pytest.mark.parametrize("wrong", [0, -2, 1.5, True, "fast"])
    def test_a_brokers_own_settings_are_checked(self, wrong: object):
        image = cluster()
        asked = self.ask(image, -1, reassignment_throttle_bytes_per_second="5000", retention_ms=1)
        configs = decided(image, asked).dynamic_configs(2)
        assert configs == {"reassignment_throttle_bytes_per_second": 5_000, "retention_ms": 1}
        throttle = {"reassignment_throttle_bytes_per_second": wrong}
        assert refused(lambda: self.ask(image, 1, **throttle)) is ErrorCode.INVALID_CONFIG


class TestFeatures:
    def test_the_first_epoch_says_whose_log_it_is(self):
        records = first_records(MetadataImage(), "c")
        assert records == (IdentifyCluster(cluster_id="c"), SetFeatureLevel(level=FEATURE_LEVEL))
        assert first_records(replay(MetadataImage(), 0, records), "c") == ()

    @pytest.mark.parametrize("level", [0, FEATURE_LEVEL + 1])
    def test_levels_that_nobody_knows_or_that_go_back_are_refused(self, level: int):
        image = replay(cluster(), 9, (SetFeatureLevel(level=FEATURE_LEVEL),))
        newest = {n: replace(broker, max_feature_level=FEATURE_LEVEL) for n, broker in image.brokers.items()}
        image = replace(image, brokers=newest)
        assert refused(lambda: decide_features(image, FeaturesBody(feature_level=level))) is (
            ErrorCode.UNSUPPORTED_VERSION
        )
        assert decide_features(image, FeaturesBody(feature_level=FEATURE_LEVEL)).records == ()

    def test_a_controller_that_would_end_is_upgraded_first(self):
        """It cannot read a log of a level that it does not support; without a majority, no controller can."""
        image = replay(cluster(), 9, (SetFeatureLevel(level=FEATURE_LEVEL - 1),))
        newest = {n: replace(broker, max_feature_level=FEATURE_LEVEL) for n, broker in image.brokers.items()}
        image, request = replace(image, brokers=newest), FeaturesBody(feature_level=FEATURE_LEVEL)
        voters = {101: FEATURE_LEVEL, 102: FEATURE_LEVEL - 1, 103: 0}

        with pytest.raises(RaftlogError, match=r"and controllers \[102, 103\] upgraded, and running, received"):
            decide_features(image, request, voters)
        assert decide_features(image, replace(request, feature_level=FEATURE_LEVEL - 1), voters).records == ()
        raised = decide_features(image, request, dict.fromkeys(voters, FEATURE_LEVEL))
        assert raised.records == (SetFeatureLevel(level=FEATURE_LEVEL),)


ANN = UserCredential(user="ann", iterations=100_000, salt="00" * 16, stored_key="11" * 32, server_key="22" * 32)
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
WIDE = ScramVerifier(iterations=100_000, salt="33" * 16, stored_key="44" * 64, server_key="55" * 64)
BOTH = replace(ANN, sha512=WIDE)
READ = Acl(principal="ann", operation="read", resource_type="topic", resource_name="t")
WRITE = Acl(principal="bob", operation="write", resource_type="topic", resource_name="t", pattern="prefixed")


class TestSecurity:
    def test_users_come_and_go(self):
        decision = decide_user(MetadataImage(), PutUserRequest(credential=ANN))
        image = decided(MetadataImage(), decision)
        assert image.users == {"ann": ANN}
        assert decide_user(image, PutUserRequest(credential=ANN)).records == ()
        gone = DeleteUserRequest(user="ann")
        image = decided(image, decide_user_deletion(image, gone))
        assert image.users == {}
        assert refused(lambda: decide_user_deletion(image, gone)) is ErrorCode.RESOURCE_NOT_FOUND

    @pytest.mark.parametrize(
        "weak",
        [
            {"iterations": 15_000},
            {"iterations": 1_000_001},
            {"salt": ""},
            {"salt": "00" * 15},
            {"salt": "zz" * 16},
            {"salt": "00" * 200},
            {"stored_key": "11" * 31},
            {"server_key": ""},
        ],
    )
    def test_weak_and_malformed_credentials_are_refused(self, weak: dict[str, Any]):
        request = PutUserRequest(credential=replace(ANN, **weak))
        assert refused(lambda: decide_user(MetadataImage(), request)) is ErrorCode.INVALID_REQUEST

    @pytest.mark.parametrize(
        "weak",
        [
            {"iterations": 99_999},
            {"salt": "33" * 15},
            {"stored_key": "44" * 32},
            {"stored_key": "44" * 65},
            {"server_key": "zz" * 64},
        ],
    )
    def test_weak_verifiers_of_sha_512_are_refused(self, weak: dict[str, Any]):
        request = PutUserRequest(credential=replace(BOTH, sha512=replace(WIDE, **weak)))
        image = MetadataImage(feature_level=SHA_512_CREDENTIALS)
        assert refused(lambda: decide_user(image, request)) is ErrorCode.INVALID_REQUEST

    def test_a_credential_without_a_verifier_is_refused(self):
        request = PutUserRequest(credential=UserCredential.of("ann", {}))
        assert refused(lambda: decide_user(MetadataImage(), request)) is ErrorCode.INVALID_REQUEST

    def test_the_verifiers_of_a_user_change_one_by_one(self):
        image = MetadataImage(feature_level=SHA_512_CREDENTIALS)
        only_512 = UserCredential.of("ann", {SHA_512: WIDE})
        one = PutUserRequest(credential=only_512, mechanism=SHA_512)
        image = decided(image, decide_user(image, one))
        assert image.users == {"ann": only_512}
        image = decided(image, decide_user(image, PutUserRequest(credential=ANN, mechanism=SHA_256)))
        assert image.users == {"ann": BOTH}
        assert decide_user(image, one).records == ()
        gone = DeleteUserRequest(user="ann", mechanism=SHA_256)
        image = decided(image, decide_user_deletion(image, gone))
        assert image.users == {"ann": only_512}
        assert refused(lambda: decide_user_deletion(image, gone)) is ErrorCode.RESOURCE_NOT_FOUND
        image = decided(image, decide_user_deletion(image, replace(gone, mechanism=SHA_512)))
        assert image.users == {}

    def test_a_password_replaces_every_verifier(self):
        image = MetadataImage(feature_level=SHA_512_CREDENTIALS)
        image = decided(image, decide_user(image, PutUserRequest(credential=BOTH)))
        assert decided(image, decide_user(image, PutUserRequest(credential=ANN))).users == {"ann": ANN}

    def test_verifiers_that_earlier_versions_would_drop_need_a_feature_level(self):
        before = MetadataImage(feature_level=SHA_512_CREDENTIALS - 1)
        assert decided(before, decide_user(before, PutUserRequest(credential=BOTH))).users == {"ann": ANN}
        request = PutUserRequest(credential=UserCredential.of("ann", {SHA_512: WIDE}), mechanism=SHA_512)
        assert refused(lambda: decide_user(before, request)) is ErrorCode.UNSUPPORTED_VERSION

    @pytest.mark.parametrize(
        "useless",
        [
            {"operation": "cluster_action"},
            {"operation": "write", "resource_type": "group"},
            {"resource_type": "user"},
            {"operation": "all", "resource_type": "user"},
            {"operation": "alter", "resource_type": "cluster", "resource_name": "my-cluster"},
            {"principal": "Robot:7"},
            {"principal": "User:"},
            {"principal": "ann\n"},
            {"host": "2001:DB8::7"},
            {"host": "::ffff:10.0.0.7"},
            {"host": "10.0.0.0/8"},
            {"host": "10.0.0.007"},
            {"host": " 10.0.0.7"},
            {"host": "workstation-7"},
        ],
    )
    def test_rules_without_effect_are_refused(self, useless: dict[str, Any]):
        request = AclsRequest(acls=(replace(READ, **useless),))
        assert refused(lambda: decide_acls(MetadataImage(), request)) is ErrorCode.INVALID_REQUEST

    def test_a_host_is_an_address_as_senders_addresses_are_written(self):
        for host in ("*", "10.0.0.7", "2001:db8::7"):
            assert len(decide_acls(MetadataImage(), AclsRequest(acls=(replace(READ, host=host),))).records) == 1
        with pytest.raises(InvalidRequestError, match="host: expected 2001:db8::7, received '2001:DB8::7'"):
            decide_acls(MetadataImage(), AclsRequest(acls=(replace(READ, host="2001:DB8::7"),)))

    @pytest.mark.parametrize("operation", LATER_OPERATIONS)
    def test_operations_that_earlier_versions_cannot_read_need_a_feature_level(self, operation: AclOperation):
        rule = replace(READ, operation=operation, resource_type="cluster", resource_name="cluster")
        request = AclsRequest(acls=(rule,))
        before, after = MetadataImage(feature_level=2), MetadataImage(feature_level=3)
        assert refused(lambda: decide_acls(before, request)) is ErrorCode.UNSUPPORTED_VERSION
        assert len(decide_acls(after, request).records) == 1

    def test_a_user_may_be_named_with_or_without_its_kind(self):
        image = decided(MetadataImage(), decide_acls(MetadataImage(), AclsRequest(acls=(READ,))))
        decision = decide_acl_deletion(image, AclFilter(principal="User:ann"))
        assert decision.response.acls == (READ,)

    def test_rules_are_chosen_by_their_fields(self):
        decision = decide_acls(MetadataImage(), AclsRequest(acls=(READ, WRITE, READ)))
        assert len(decision.records) == 2
        image = decided(MetadataImage(), decision)
        assert decide_acls(image, AclsRequest(acls=(READ,))).records == ()
        decision = decide_acl_deletion(image, AclFilter(resource_name="t", operation="write"))
        assert decision.response.acls == (WRITE,)
        assert list(decided(image, decision).acls) == [READ]
        assert decide_acl_deletion(image, AclFilter(principal="eve")).records == ()

    @pytest.mark.parametrize("field", ["principal", "resource_name", "host"])
    def test_no_name_is_longer_than_a_log_entry_should_be(self, field: str):
        rules = AclsRequest(acls=(replace(READ, **{field: "x" * 256}),))
        assert refused(lambda: decide_acls(MetadataImage(), rules)) is ErrorCode.INVALID_REQUEST
        quota = QuotaRequest(user="x" * 256, limits={"request_rate": 1.0})
        assert refused(lambda: decide_quota(MetadataImage(), quota)) is ErrorCode.INVALID_REQUEST

    def test_quotas_change_limit_by_limit(self):
        ask = lambda image, **limits: decide_quota(image, QuotaRequest(user="ann", limits=limits))  # noqa: E731
        image = decided(MetadataImage(), ask(MetadataImage(), producer_byte_rate=5.0, request_rate=2.0))
        image = decided(image, ask(image, request_rate=None))
        assert image.quotas["ann", ""].limits == {"producer_byte_rate": 5.0}
        assert ask(image, producer_byte_rate=5.0, request_rate=None).records == ()
        assert decided(image, ask(image, producer_byte_rate=None)).quotas == {}
        assert refused(lambda: ask(image, nope=1.0)) is ErrorCode.INVALID_REQUEST
        assert refused(lambda: ask(image, request_rate=0.0)) is ErrorCode.INVALID_REQUEST
        assert refused(lambda: decide_quota(image, QuotaRequest(limits={}))) is ErrorCode.INVALID_REQUEST

    def test_users_and_quotas_have_a_limit_which_changes_of_known_ones_do_not_meet(
        self, monkeypatch: pytest.MonkeyPatch
    ):
        monkeypatch.setattr(security, "MAX_QUOTAS", 1)
        monkeypatch.setattr(security, "MAX_USERS", 1)
        limit = lambda image, user, rate: decide_quota(  # noqa: E731
            image, QuotaRequest(user=user, limits={"request_rate": rate})
        )
        image = decided(MetadataImage(), limit(MetadataImage(), "ann", 1.0))
        image = decided(image, limit(image, "ann", 2.0))
        assert refused(lambda: limit(image, "bob", 1.0)) is ErrorCode.INVALID_REQUEST
        assert limit(image, "bob", None).records == ()
        assert decided(image, limit(image, "ann", None)).quotas == {}
        put = lambda image, credential: decide_user(image, PutUserRequest(credential=credential))  # noqa: E731
        image = decided(MetadataImage(), put(MetadataImage(), ANN))
        assert refused(lambda: put(image, replace(ANN, user="bob"))) is ErrorCode.INVALID_REQUEST
        assert put(image, replace(ANN, salt="cd" * 16)).records
