"""Requests to the routes of groups and transactions."""

from __future__ import annotations

from openapi_answers_support import GROUP, TOPIC, TRANSACTION, Checked, leader_of

from raftlog.wire import paths


async def answers_of_groups(ask: Checked) -> None:
    """The group's internal topic has one partition: both coordinators are its leader."""
    found = (await ask("GET", paths.COORDINATOR, 200, kind="group", key=GROUP)).json
    await ask("GET", paths.COORDINATOR, 404, kind="user", key=GROUP)
    url, (_, other) = found["url"], await leader_of(ask, found["topic"])
    part = {"topic": TOPIC, "partition": 0}
    joins = {"member_id": "m", "member_epoch": 0, "topics": [TOPIC], "owned": [], "session_timeout_ms": 45_000}
    joins |= {"rebalance_timeout_ms": 45_000, "instance_id": None, "pattern": None, "assignor": "uniform"}
    epoch = (await ask("POST", paths.GROUP_HEARTBEAT, 200, group=GROUP, body=joins, url=url)).json["member_epoch"]
    await ask("POST", paths.GROUP_HEARTBEAT, 409, group=GROUP, body={"member_id": "x", "member_epoch": 9}, url=url)
    assert (await ask("GET", paths.GROUP, 200, group=GROUP, url=url)).json["members"]
    commit = {"offsets": [{**part, "offset": 1}], "member_id": "m", "member_epoch": epoch}
    assert (await ask("POST", paths.GROUP_OFFSETS, 200, group=GROUP, body=commit, url=url)).json["offsets"]
    await ask("POST", paths.GROUP_OFFSETS, 409, group=GROUP, body={**commit, "member_epoch": 99}, url=url)
    await ask("DELETE", paths.GROUP, 409, group=GROUP, url=url)
    wanted = {"partitions": [{"topic": TOPIC, "partitions": [0]}]}
    assert (await ask("GET", paths.GROUP_OFFSETS, 200, group=GROUP, url=url)).json["offsets"]
    await ask("POST", paths.GROUP_OFFSETS_FETCH, 200, group=GROUP, body=wanted, url=url)
    await ask("POST", paths.GROUP_OFFSETS_FETCH, 409, group=GROUP, body={"member_id": "x", "member_epoch": 1}, url=url)
    removed = await ask("POST", paths.GROUP_OFFSETS_DELETE, 200, group=GROUP, body=wanted, url=url)
    assert removed.json["offsets"][0]["error"]["code"] == "GROUP_SUBSCRIBED_TO_TOPIC"
    assert removed.json["offsets"][0]["error"]["request_id"] == removed.headers["X-Request-Id"]
    await ask("POST", paths.GROUP_OFFSETS_DELETE, 404, group="ghost", body=wanted, url=url)
    await ask("GET", paths.GROUP, 404, group="ghost", url=url)
    for scope in ("cluster", "broker"):
        await ask("GET", paths.GROUPS, 200, query={"scope": scope}, url=url)
    page = await ask("GET", paths.GROUPS, 200, query={"limit": 1, "contains": GROUP, "after": "a"}, url=other)
    assert ([one["group_id"] for one in page.json["groups"]], page.json["matching"]) == ([GROUP], 1)
    await ask("GET", paths.GROUPS, 400, query={"scope": "all"})
    for method, path, body in (
        ("GET", paths.GROUP, None),
        ("DELETE", paths.GROUP, None),
        ("POST", paths.GROUP_HEARTBEAT, joins),
        ("GET", paths.GROUP_OFFSETS, None),
        ("POST", paths.GROUP_OFFSETS, commit),
        ("POST", paths.GROUP_OFFSETS_FETCH, wanted),
        ("POST", paths.GROUP_OFFSETS_DELETE, wanted),
    ):
        await ask(method, path, 307, group=GROUP, body=body, url=other)
    leaves = {"member_id": "m", "member_epoch": -1}
    await ask("POST", paths.GROUP_HEARTBEAT, 200, group=GROUP, body=leaves, url=url)
    await ask("DELETE", paths.GROUP, 200, group=GROUP, url=url)


async def answers_of_transactions(ask: Checked) -> None:
    found = (await ask("GET", paths.COORDINATOR, 200, kind="transaction", key=TRANSACTION)).json
    url, (_, other) = found["url"], await leader_of(ask, found["topic"])
    name = {"transactional_id": TRANSACTION, "url": url}
    producer = (await ask("POST", paths.INIT_TRANSACTIONS, 200, body={"timeout_ms": 60_000}, **name)).json
    await ask("POST", paths.INIT_TRANSACTIONS, 400, body={"timeout_ms": 0}, **name)
    await ask("POST", paths.INIT_TRANSACTIONS, 421, body={}, transactional_id=TRANSACTION, url=other)
    offsets = {"group_id": GROUP, **producer, "offsets": [{"topic": TOPIC, "partition": 0, "offset": 1}]}
    group_url = (await ask("GET", paths.COORDINATOR, 200, kind="group", key=GROUP)).json["url"]
    at_group = {"transactional_id": TRANSACTION, "url": group_url}
    await ask("POST", paths.TRANSACTION_OFFSETS, 200, body=offsets, **at_group)
    await ask("POST", paths.TRANSACTION_OFFSETS, 409, body={**offsets, "producer_id": 1}, **at_group)
    assert (await ask("GET", paths.TRANSACTION, 200, **name)).json["groups"] == [GROUP]
    assert (await ask("GET", paths.TRANSACTIONS, 200, url=url)).json["transactions"]
    page = {"scope": "cluster", "state": "open", "limit": 1, "contains": TRANSACTION, "after": "a"}
    found = (await ask("GET", paths.TRANSACTIONS, 200, query=page, url=other)).json
    assert ([one["phase"] for one in found["transactions"]], found["matching"]) == (["ongoing"], 1)
    await ask("GET", paths.TRANSACTIONS, 400, query={"state": "closed"}, url=url)
    await ask("GET", paths.TRANSACTION, 404, transactional_id="ghost", url=url)
    await ask("GET", paths.TRANSACTION, 421, transactional_id=TRANSACTION, url=other)
    await ask("POST", paths.END_TRANSACTION, 200, body={**producer, "committed": True}, **name)
    await ask("POST", paths.END_TRANSACTION, 421, body={**producer, "committed": True}, **{**name, "url": other})
    await ask("POST", paths.END_TRANSACTION, 409, body={**producer, "producer_id": 1, "committed": True}, **name)
    end = {"run": "r", "number": 0, "members": []}
    await ask("POST", paths.END_TRANSACTION_SET, 200, body=end, set_id="set", url=url)
    await ask("POST", paths.END_TRANSACTION_SET, 421, body=end, set_id="set", url=other)
    assert (await ask("GET", paths.TRANSACTION_SET, 200, set_id="set", url=url)).json["run"] == "r"
    await ask("GET", paths.TRANSACTION_SET, 421, set_id="set", url=other)
