"""Requests to the routes of the cluster, of security, and of the node itself."""

from __future__ import annotations

from openapi_answers_support import DOCUMENT, GROUP, TOPIC, Checked

from raftlog.wire import paths, scram
from raftlog.wire.scram import ClientFirst


async def answers_of_the_cluster(ask: Checked) -> None:
    both = ("linearizable", "local")
    for path in (paths.CLUSTER, paths.CONTROLLER, paths.BROKERS, paths.FEATURES):
        for consistency in both:
            await ask("GET", path, 200, query={"consistency": consistency})
    for consistency in both:
        await ask("GET", paths.BROKER_CONFIGS, 200, broker=1, query={"consistency": consistency})
    assert (await ask("GET", paths.QUORUM, 200)).json["voters"]
    await ask("GET", paths.METADATA_DIGEST, 200)
    level = (await ask("GET", paths.FEATURES, 200)).json["feature_level"]
    await ask("PATCH", paths.FEATURES, 200, body={"feature_level": level})
    await ask("PATCH", paths.FEATURES, 409, body={"feature_level": 999})
    for broker in (1, "default"):
        await ask("PATCH", paths.BROKER_CONFIGS, 200, broker=broker, body={"configs": {"max_connection_rate": 10_000}})
        assert (await ask("GET", paths.BROKER_CONFIGS, 200, broker=broker)).json["configs"]
        await ask("PATCH", paths.BROKER_CONFIGS, 200, broker=broker, body={"configs": {"max_connection_rate": None}})
    await ask("PATCH", paths.BROKER_CONFIGS, 400, broker=1, body={"configs": {"nope": 1}})
    await ask("GET", paths.BROKER_CONFIGS, 404, broker="one")
    whole = (await ask("GET", paths.LOG_DIRS, 200, broker=1)).json["log_dirs"][0]
    assert len(whole["replicas"]) == whole["replica_count"] > 0
    assert sum(one["size_bytes"] for one in whole["replicas"]) == whole["size_bytes"]
    for query, count in (({"only": "damaged"}, whole["replica_count"]), ({"topic": "no-such-topic"}, 0)):
        some = (await ask("GET", paths.LOG_DIRS, 200, broker=1, query=query)).json["log_dirs"][0]
        assert (some["replicas"], some["damaged_count"], some["replica_count"]) == ([], 0, count)
    await ask("GET", paths.LOG_DIRS, 307, broker=2)
    every = {"principal": "a", "resource": "b", "outcome": "all", "event": "all", "since": 0, "until": 1, "limit": 500}
    audit = (await ask("GET", paths.AUDIT, 200, broker=1, query=every | {"before": "1-2"})).json
    assert audit == {"broker_id": 1, "kept": "none", "entries": [], "reached": "", "next": ""}
    await ask("GET", paths.AUDIT, 400, broker=1, query={"outcome": "maybe"})
    await ask("GET", paths.AUDIT, 307, broker=2)
    await ask("GET", paths.AUDIT, 404, broker=77)
    for consistency in both:
        found = await ask("GET", paths.BROKER_SETTINGS, 200, broker=1, query={"consistency": consistency})
    settings = {one["name"]: one for one in found.json["settings"]}
    assert settings["broker.offsets_topic_num_partitions"] == {
        "name": "broker.offsets_topic_num_partitions",
        "value": 1,
        "source": "file",
        "default": 50,
        "is_dynamic": False,
    }
    assert not any(name.startswith(("security", "tls")) for name in settings)
    await ask("GET", paths.BROKER_SETTINGS, 307, broker=2)
    await ask("GET", paths.BROKER_SETTINGS, 404, broker=77)
    for method, body, done in (("GET", None, 200), ("POST", {"topics": []}, 202)):
        await ask(method, paths.SCRUB, done, broker=1, body=body)
        await ask(method, paths.SCRUB, 307, broker=2, body=body)
        await ask(method, paths.SCRUB, 404, broker=77, body=body)
    await ask("POST", paths.SCRUB, 404, broker=1, body={"topics": ["ghost"]})


async def answers_of_security(ask: Checked) -> None:
    await ask("PUT", paths.USER, 200, user="someone", body={"password": "long-enough-1"})
    await ask("PUT", paths.USER, 400, user="someone", body={"password": "short"})
    await answers_of_logins(ask)
    rule = {"principal": "someone", "operation": "read", "resource_type": "topic", "resource_name": TOPIC}
    whole = {**rule, "pattern": "literal", "permission": "allow", "host": "*"}
    await ask("POST", paths.ACLS, 201, body={"acls": [rule, {**rule, "operation": "write"}]})
    await ask("POST", paths.ACLS, 400, body={"acls": [{**rule, "operation": "fly"}]})
    for name, value in whole.items():
        found = await ask("GET", paths.ACLS, 200, query={name: value})
        assert {**whole, "principal": found.json["acls"][0]["principal"]} in found.json["acls"]
    await ask("GET", paths.ACLS, 200, query={"consistency": "local"})
    for method in ("GET", "DELETE"):
        await ask(method, paths.ACLS, 400, query={"operation": "fly"})
    for name, value in whole.items():
        await ask("DELETE", paths.ACLS, 200, query={name: value, "principal": "nobody.else"})
    assert (await ask("DELETE", paths.ACLS, 200, query={"principal": "someone"})).json["acls"]
    assert (await ask("GET", paths.ACLS, 200, query={"limit": 1})).json["matching"] == 0
    page = await ask("GET", paths.USERS, 200, query={"limit": 1, "contains": "someone", "after": "a"})
    assert (page.json["matching"], page.json["next"]) == (1, "")
    for path in (paths.USERS, paths.QUOTAS):
        await ask("GET", path, 200, query={"consistency": "local"})
    limit = {"user": "someone", "client_id": "", "limits": {"producer_byte_rate": 1e9}}
    assert (await ask("PATCH", paths.QUOTAS, 200, body=limit)).json["quotas"]
    await ask("PATCH", paths.QUOTAS, 400, body={"user": "someone", "limits": {"nope": 1}})
    await ask("PATCH", paths.QUOTAS, 200, body={**limit, "limits": {"producer_byte_rate": None}})
    assert (await ask("GET", paths.USERS, 200)).json["users"]
    await ask("DELETE", paths.USER, 200, user="someone")
    await ask("DELETE", paths.USER, 404, user="someone")


async def answers_of_logins(ask: Checked) -> None:
    first = ClientFirst("someone", "client-nonce")
    begun = await ask("POST", paths.LOGIN, 200, body={"message": first.text})
    answer = scram.parse_server_first(begun.json["message"], first.nonce)
    for password, expected in (("long-enough-1", 200), ("wrong-secret-1", 401)):
        salted = scram.salted_password(password, answer.salt, answer.iterations)
        message, _ = scram.client_final(first, answer, salted)
        body = {"mechanism": scram.MECHANISM, "message": message, "first": first.text}
        ended = await ask("POST", paths.LOGIN, expected, body=body)
        assert expected != 200 or ended.json["access_token"]
    await ask("POST", paths.LOGIN, 400, body={"message": "n,,r=x"})


async def answers_of_the_node(ask: Checked) -> None:
    for path in (paths.LIVEZ, paths.READYZ):
        await ask("GET", path, 200)
        await ask("GET", path, 403, headers={"Origin": "https://evil.example"})
    await ask("GET", paths.METRICS, 200)
    await ask("GET", paths.METRICS, 200, query={"detail": "partitions"})
    await ask("GET", paths.METRICS, 400, query={"detail": "everything"})
    page = await ask("GET", paths.OPENAPI, 200)
    assert page.json == DOCUMENT


async def answers_of_the_console(ask: Checked) -> None:
    await ask("GET", paths.CONSOLE, 200)
    await ask("GET", paths.CONSOLE_INDEX, 200)
    await ask("GET", paths.CONSOLE_FILE, 200, file="index.html")
    await ask("GET", paths.CONSOLE_FILE, 404, file="no-such.js")
    await ask("GET", paths.CONSOLE_SESSION, 200, query={"topic": TOPIC, "group": GROUP})
    await ask("GET", paths.CONSOLE_TOPIC, 200, topic=TOPIC)
    await ask("GET", paths.CONSOLE_TOPIC, 404, topic="no-such-topic")
