"""Access rules, quotas and users of SCRAM, by Kafka's requests."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio
from admin_support import Asker, asker, codes

from raftlog.model import Acl, Quota
from raftlog.security.audit import detail_of
from raftlog.wire import paths
from raftlog.wire.admin import AclsRequest
from raftlog.wire.kafka.error_codes import KafkaError as K
from raftlog.wire.kafka.messages import alter_client_quotas as alter
from raftlog.wire.kafka.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from raftlog.wire.kafka.messages.create_acls import AclCreation, CreateAclsRequest
from raftlog.wire.kafka.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from raftlog.wire.kafka.messages.describe_acls import DescribeAclsRequest
from raftlog.wire.kafka.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest
from raftlog.wire.kafka.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    UserName,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")
ANY, MATCH, LITERAL, PREFIXED = 1, 2, 3, 4
TOPIC, GROUP, CLUSTER = 2, 3, 4
ALL, READ, WRITE, DELETE = 2, 3, 4, 6
DENY, ALLOW = 2, 3


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def ask(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Asker]:
    async with asker(tmp_path_factory.mktemp("node")) as found:
        yield found


def rule(name: str, **more: Any) -> AclCreation:
    given = {
        "resource_type": TOPIC,
        "resource_pattern_type": LITERAL,
        "principal": "User:alice",
        "host": "*",
        "operation": READ,
        "permission_type": ALLOW,
    }
    return AclCreation(resource_name=name, **(given | more))


async def create(ask: Asker, *rules: AclCreation, version: int | None = None) -> Any:
    return (await ask(CreateAclsRequest(creations=list(rules)), version)).results


def matching(cls: Any, name: str | None = None, **more: Any) -> Any:
    given: dict[str, Any] = {
        "resource_type_filter": ANY,
        "resource_name_filter": name,
        "pattern_type_filter": ANY,
        "principal_filter": None,
        "host_filter": None,
        "operation": ANY,
        "permission_type": ANY,
    }
    return cls(**(given | more))


async def found(ask: Asker, name: str | None = None, version: int | None = None, **more: Any) -> list[Any]:
    answer = await ask(matching(DescribeAclsRequest, name, **more), version)
    assert answer.error_code == 0, answer.error_message
    return [(one.resource_name, acl.principal, acl.operation) for one in answer.resources for acl in one.acls]


async def delete(ask: Asker, *filters: Any) -> Any:
    return (await ask(DeleteAclsRequest(filters=list(filters)))).filter_results


class TestRules:
    async def test_rules_are_created_and_listed_in_every_version(self, ask: Asker):
        for version in ask.versions("CreateAcls"):
            assert codes(await create(ask, rule(f"v{version}"), version=version)) == [0]
            assert await found(ask, f"v{version}", version) == [(f"v{version}", "User:alice", READ)]

    async def test_the_cluster_has_kafkas_name(self, ask: Asker):
        given = rule("kafka-cluster", resource_type=CLUSTER, operation=7, principal="User:admin")
        assert codes(await create(ask, given)) == [0]
        made = Acl(principal="User:admin", operation="alter", resource_type="cluster", resource_name="cluster")
        assert made in ask.context.image.acls
        assert await found(ask, "kafka-cluster") == [("kafka-cluster", "User:admin", 7)]
        (gone,) = await delete(
            ask, matching(DeleteAclsFilter, "kafka-cluster", resource_type_filter=CLUSTER, pattern_type_filter=LITERAL)
        )
        assert [one.resource_name for one in gone.matching_acls] == ["kafka-cluster"]
        assert made not in ask.context.image.acls

    async def test_each_rule_has_its_own_answer(self, ask: Asker):
        results = await create(
            ask,
            rule("own-1"),
            rule(""),
            rule("x" * 300),
            rule("own-2", resource_type=6),
            rule("own-3", resource_type=ANY),
            rule("own-4", resource_pattern_type=MATCH),
            rule("own-5", operation=ANY),
            rule("own-6", operation=15),
            rule("own-7", permission_type=ANY),
            rule("own-8", principal="alice"),
            rule("own-9", principal="Robot:r2"),
            rule("own-10", principal="User:a:b"),
            rule("own-11", host=""),
            rule("own-12", resource_type=CLUSTER),
            rule("own-13", resource_type=GROUP, operation=11),
            rule("own-14", operation=-128, resource_type=-128, permission_type=127),
            rule("own-15"),
        )
        assert codes(results) == [0, *[K.INVALID_REQUEST] * 15, 0]
        assert all(one.error_message for one in results if one.error_code)
        assert await found(ask, "own-1")
        assert await found(ask, "own-15")

    async def test_a_rule_with_a_users_name_alone_is_not_created_again(self, ask: Asker):
        short = Acl(principal="bob", operation="read", resource_type="topic", resource_name="short")
        await ask.context.channel.administer(paths.CREATE_ACLS, AclsRequest(acls=(short,)), timeout_ms=9_000)
        given = rule("short", principal="User:bob")
        assert codes(await create(ask, given, given)) == [0, 0]
        assert await found(ask, "short") == [("short", "User:bob", READ)]

    async def test_filters(self, ask: Asker):
        rules = [
            rule("orders", principal="User:f"),
            rule("ord", principal="User:f", resource_pattern_type=PREFIXED),
            rule("*", principal="User:f"),
            rule("orders", principal="User:f", resource_type=GROUP),
            rule("orders", principal="User:f", operation=WRITE, permission_type=DENY, host="10.0.0.1"),
        ]
        assert set(codes(await create(ask, *rules))) == {0}

        async def count(name: str | None = None, **more: Any) -> int:
            return len(await found(ask, name, principal_filter="User:f", **more))

        assert await count() == 5
        assert await count("orders") == 3
        assert await count("orders", pattern_type_filter=MATCH) == 5
        assert await count("orders", pattern_type_filter=MATCH, resource_type_filter=TOPIC) == 4
        assert await count("order", pattern_type_filter=MATCH) == 2
        assert await count("ord", pattern_type_filter=PREFIXED) == 1
        assert await count(operation=WRITE) == 1
        assert await count(permission_type=DENY) == 1
        assert await count(host_filter="10.0.0.1") == 1
        assert await count("orders", resource_type_filter=GROUP) == 1

    async def test_a_filter_that_means_nothing_is_refused(self, ask: Asker):
        for more in (
            {"operation": 99},
            {"pattern_type_filter": 0},
            {"resource_type_filter": 6},
            {"permission_type": 9},
        ):
            answer = await ask(matching(DescribeAclsRequest, **more))
            assert answer.error_code == K.INVALID_REQUEST
            assert answer.error_message
            (gone,) = await delete(ask, matching(DeleteAclsFilter, **more))
            assert gone.error_code == K.INVALID_REQUEST

    async def test_a_match_deletes_all_that_apply_to_a_name_and_nothing_else(self, ask: Asker):
        kept, *others = (
            rule("logs", principal="User:d", resource_type=GROUP),
            rule("logs", principal="User:d"),
            rule("lo", principal="User:d", resource_pattern_type=PREFIXED),
            rule("*", principal="User:d"),
        )
        await create(ask, kept, *others)
        wanted = {"principal_filter": "User:d", "resource_type_filter": TOPIC, "pattern_type_filter": MATCH}
        first, second = await delete(
            ask, matching(DeleteAclsFilter, "logs", **wanted), matching(DeleteAclsFilter, "nothing", **wanted)
        )
        assert {one.resource_name for one in (*first.matching_acls, *second.matching_acls)} == {"logs", "lo", "*"}
        assert await found(ask, principal_filter="User:d") == [("logs", "User:d", READ)]

    async def test_20000_rules_and_10000_filters_are_refused(self, ask: Asker):
        assert {one.error_code for one in await create(ask, *(rule("x") for _ in range(20_000)))} == {
            K.POLICY_VIOLATION
        }
        refused = await delete(ask, *(matching(DeleteAclsFilter) for _ in range(10_000)))
        assert {one.error_code for one in refused} == {K.POLICY_VIOLATION}
        assert await found(ask)


def entry(entity: dict[str, str | None], *ops: tuple[str, float | None]) -> alter.AlterClientQuotasRequestEntryData:
    return alter.AlterClientQuotasRequestEntryData(
        entity=[
            alter.AlterClientQuotasRequestEntityData(entity_type=kind, entity_name=name)
            for kind, name in entity.items()
        ],
        ops=[alter.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in ops],
    )


async def limit(ask: Asker, *entries: Any, version: int | None = None, validate_only: bool = False) -> Any:
    request = alter.AlterClientQuotasRequest(entries=list(entries), validate_only=validate_only)
    return (await ask(request, version)).entries


async def quotas(ask: Asker, *components: tuple[str, int, str | None], strict: bool = False) -> list[Any]:
    given = [ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components]
    answer = await ask(DescribeClientQuotasRequest(components=given, strict=strict))
    assert answer.error_code == 0, answer.error_message
    return [
        ({one.entity_type: one.entity_name for one in found.entity}, {one.key: one.value for one in found.values})
        for found in answer.entries
    ]


class TestQuotas:
    async def test_limits_are_set_described_and_removed_in_every_version(self, ask: Asker):
        for version in ask.versions("AlterClientQuotas"):
            user = f"u{version}"
            given = entry({"user": user}, ("producer_byte_rate", 1024.0), ("request_rate", 9.5))
            assert codes(await limit(ask, given, version=version)) == [0]
            assert await quotas(ask, ("user", 0, user)) == [
                ({"user": user}, {"producer_byte_rate": 1024.0, "request_rate": 9.5})
            ]
            gone = entry({"user": user}, ("producer_byte_rate", None), ("request_rate", None))
            assert codes(await limit(ask, gone, version=version)) == [0]
            assert await quotas(ask, ("user", 0, user)) == []

    async def test_the_default_entity_is_the_star(self, ask: Asker):
        given = entry({"user": None, "client-id": "app"}, ("consumer_byte_rate", 7.0))
        assert codes(await limit(ask, given)) == [0]
        expected = Quota(user="*", client_id="app", limits={"consumer_byte_rate": 7.0})
        assert ask.context.image.quotas["*", "app"] == expected
        both = ({"user": None, "client-id": "app"}, {"consumer_byte_rate": 7.0})
        assert await quotas(ask, ("user", 1, None)) == [both]
        assert await quotas(ask, ("user", 1, None), strict=True) == []
        assert await quotas(ask, ("client-id", 2, None), ("user", 2, None), strict=True) == [both]
        assert await quotas(ask, ("user", 0, "*")) == []
        assert await quotas(ask, ("ip", 2, None)) == []

    async def test_each_entity_has_its_own_answer(self, ask: Asker):
        rate = ("producer_byte_rate", 5.0)
        results = await limit(
            ask,
            entry({"user": "ok"}, rate),
            entry({}, rate),
            entry({"ip": "10.0.0.1"}, ("connection_creation_rate", 5.0)),
            entry({"tenant": "t"}, rate),
            entry({"user": ""}, rate),
            entry({"user": "*"}, rate),
            entry({"user": "User:x"}, rate),
            entry({"client-id": "\x00"}, rate),
            entry({"user": "bad-1"}, ("controller_mutation_rate", 5.0)),
            entry({"user": "bad-2"}, ("producer_byte_rate", -1.0)),
            entry({"user": "bad-3"}, ("producer_byte_rate", float("nan"))),
            entry({"user": "bad-4"}, ("producer_byte_rate", float("inf"))),
            entry({"user": "bad-5"}, rate, rate),
            entry({"user": "x" * 300}, rate),
        )
        assert codes(results) == [0, *[K.INVALID_REQUEST] * 13]
        assert all(one.error_message for one in results[1:])
        assert "max.connection.creation.rate" in results[2].error_message
        assert ("ok", "") in ask.context.image.quotas

    async def test_validate_only_and_repeated_entities_change_nothing(self, ask: Asker):
        given = entry({"user": "dry"}, ("producer_byte_rate", 5.0))
        assert codes(await limit(ask, given, validate_only=True)) == [0]
        assert codes(await limit(ask, given, given)) == [K.INVALID_REQUEST] * 2
        assert ("dry", "") not in ask.context.image.quotas

    @pytest.mark.parametrize(
        "component", [("tenant", 2, None), ("user", 3, None), ("user", -1, None), ("user", 0, None)]
    )
    async def test_a_filter_that_means_nothing_is_refused(self, ask: Asker, component: Any):
        kind, how, name = component
        given = [ComponentData(entity_type=kind, match_type=how, match=name)]
        answer = await ask(DescribeClientQuotasRequest(components=given))
        assert (answer.error_code, answer.entries) == (K.INVALID_REQUEST, None)
        assert answer.error_message

    async def test_10000_entities_are_refused(self, ask: Asker):
        refused = await limit(ask, *(entry({"user": f"u{number}"}) for number in range(10_000)))
        assert {one.error_code for one in refused} == {K.POLICY_VIOLATION}


def upsertion(name: str, password: str = "secret-secret", **more: Any) -> ScramCredentialUpsertion:
    salt, iterations = more.get("salt", b"s" * 16), more.get("iterations", 100_000)
    hash_name = {1: "sha256", 2: "sha512"}.get(more.get("mechanism", 1), "sha256")
    salted = hashlib.pbkdf2_hmac(hash_name, password.encode(), b"s" * 16, 1 if more else iterations)
    given = {"mechanism": 1, "iterations": iterations, "salt": salt, "salted_password": salted}
    return ScramCredentialUpsertion(name=name, **(given | more))


async def alter_users(ask: Asker, upsertions: Any = (), deletions: Any = ()) -> dict[str, Any]:
    request = AlterUserScramCredentialsRequest(upsertions=list(upsertions), deletions=list(deletions))
    return {one.user: one for one in (await ask(request)).results}


class TestUsers:
    async def test_a_user_is_created_described_and_deleted(self, ask: Asker):
        made = await alter_users(ask, [upsertion("carol")])
        assert made["carol"].error_code == 0, made["carol"].error_message
        assert ask.context.image.users["carol"].iterations == 100_000
        answer = await ask(DescribeUserScramCredentialsRequest(users=[UserName(name="carol"), UserName(name="no")]))
        assert codes(answer.results) == [0, K.RESOURCE_NOT_FOUND]
        (info,) = answer.results[0].credential_infos
        assert (info.mechanism, info.iterations) == (1, 100_000)
        every = await ask(DescribeUserScramCredentialsRequest(users=None))
        assert [one.user for one in every.results] == ["carol"]
        gone = await alter_users(ask, deletions=[ScramCredentialDeletion(name="carol", mechanism=1)])
        assert gone["carol"].error_code == 0
        assert "carol" not in ask.context.image.users

    async def test_the_mechanisms_of_a_user_change_separately(self, ask: Asker):
        async def mechanisms() -> list[tuple[int, int]]:
            answer = await ask(DescribeUserScramCredentialsRequest(users=[UserName(name="dora")]))
            return [(info.mechanism, info.iterations) for info in answer.results[0].credential_infos]

        async def change(*changes: Any) -> int:
            upsertions = [one for one in changes if isinstance(one, ScramCredentialUpsertion)]
            deletions = [one for one in changes if isinstance(one, ScramCredentialDeletion)]
            return int((await alter_users(ask, upsertions, deletions))["dora"].error_code)

        wide = upsertion("dora", mechanism=2, iterations=200_000)
        delete_256, delete_512 = (ScramCredentialDeletion(name="dora", mechanism=number) for number in (1, 2))
        assert await change(wide) == 0
        assert await mechanisms() == [(2, 200_000)]
        assert await change(delete_256) == K.RESOURCE_NOT_FOUND
        assert await change(upsertion("dora")) == 0
        assert await mechanisms() == [(1, 100_000), (2, 200_000)]
        stored = ask.context.image.users["dora"]
        assert await change(upsertion("dora", iterations=150_000)) == 0
        assert await mechanisms() == [(1, 150_000), (2, 200_000)]
        assert ask.context.image.users["dora"].sha512 == stored.sha512
        assert await change(delete_256, upsertion("dora", mechanism=2)) == K.DUPLICATE_RESOURCE
        assert await change(delete_256) == 0
        assert await mechanisms() == [(2, 200_000)]
        assert await change(delete_512) == 0
        assert "dora" not in ask.context.image.users

    async def test_each_user_has_its_own_answer(self, ask: Asker):
        made = await alter_users(
            ask,
            [
                upsertion("good"),
                upsertion("sha512", mechanism=2),
                upsertion("sha1", mechanism=0),
                upsertion("sha3", mechanism=3),
                upsertion("few", iterations=4_096),
                upsertion("few-512", mechanism=2, iterations=4_096),
                upsertion("narrow", mechanism=2, salted_password=b"k" * 32),
                upsertion("many", iterations=2**31 - 1),
                upsertion("minus", iterations=-1),
                upsertion("salt", salt=b""),
                upsertion("long-salt", salt=b"s" * 5_000),
                upsertion("short", salted_password=b""),
                upsertion("wide", salted_password=b"k" * 64),
                upsertion("no spaces"),
                upsertion("ANONYMOUS"),
                upsertion(""),
                upsertion("both"),
            ],
            [ScramCredentialDeletion(name="both", mechanism=1), ScramCredentialDeletion(name="absent", mechanism=1)],
        )
        bad, mechanism = K.UNACCEPTABLE_CREDENTIAL, K.UNSUPPORTED_SASL_MECHANISM
        assert {name: one.error_code for name, one in made.items()} == {
            "good": 0,
            "sha512": 0,
            "sha1": mechanism,
            "sha3": mechanism,
            "few": bad,
            "few-512": bad,
            "narrow": bad,
            "many": bad,
            "minus": bad,
            "salt": bad,
            "long-salt": bad,
            "short": bad,
            "wide": bad,
            "no spaces": K.INVALID_REQUEST,
            "ANONYMOUS": K.INVALID_REQUEST,
            "": K.INVALID_REQUEST,
            "both": K.DUPLICATE_RESOURCE,
            "absent": K.RESOURCE_NOT_FOUND,
        }
        assert all(one.error_message for one in made.values() if one.error_code)
        assert "2 (SCRAM-SHA-512)" in made["sha1"].error_message
        assert "iterations=100000" in made["few"].error_message

    async def test_repeated_users_are_refused(self, ask: Asker):
        made = await alter_users(ask, [upsertion("two"), upsertion("two", "other-secret")])
        assert made["two"].error_code == K.DUPLICATE_RESOURCE
        answer = await ask(DescribeUserScramCredentialsRequest(users=[UserName(name="x"), UserName(name="x")]))
        assert codes(answer.results) == [K.DUPLICATE_RESOURCE]

    async def test_an_audit_log_shows_no_part_of_a_credential(self):
        shown = str(detail_of(AlterUserScramCredentialsRequest(upsertions=[upsertion("carol")])))
        assert "carol" in shown
        assert "salt" not in shown

    async def test_20000_users_are_refused(self, ask: Asker):
        deletions = [ScramCredentialDeletion(name=f"u{number}", mechanism=1) for number in range(20_000)]
        assert {one.error_code for one in (await alter_users(ask, deletions=deletions)).values()} == {
            K.POLICY_VIOLATION
        }
        answer = await ask(DescribeUserScramCredentialsRequest(users=[UserName(name=f"u{n}") for n in range(20_000)]))
        assert answer.error_code == K.POLICY_VIOLATION
