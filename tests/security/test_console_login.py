"""The console with access rules: a login, and what a user may not do."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.async_api import Route, expect
from secured_support import PASSWORDS, basic, secured

from raftlog import Admin, Security
from raftlog.cli.local_cluster import LocalCluster
from tests.broker.broker_support import http_to
from tests.broker.console_support import log_in, page_of
from tests.tls.tls_support import Authority, section

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with secured(tmp_path_factory.mktemp("secured")) as running:
        yield running


async def test_without_credentials_only_the_page_is_served(cluster: LocalCluster):
    async with http_to(cluster.public_url("broker-1")) as http:
        assert (await http("GET", "/console/")).status == 200
        for path in ("/console/api/events", "/console/api/session", "/console/api/topics/flights"):
            assert (await http("GET", path)).status == 401


async def test_a_user_without_rights_sees_no_state_and_cannot_create(cluster: LocalCluster):
    url = cluster.public_url("broker-1")
    user = next(name for name in PASSWORDS if name != "admin")
    async with http_to(url) as http:
        assert (await http("GET", "/console/api/events", headers=basic(user))).status == 403
        session = (await http("GET", "/console/api/session?topic=secret", headers=basic(user))).json
        assert (session["principal"], session["topic"], session["cluster"]) == (f"User:{user}", [], [])
    async with page_of(url, allowed=("401", "403")) as page:
        await page.get_by_label("User").fill(user)
        await page.get_by_label("Password").fill("wrong")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("alert")).not_to_be_empty()
        await page.get_by_label("Password").fill(PASSWORDS[user])
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_text("You may not describe the cluster")).to_be_visible()
        await page.get_by_role("link", name="Topics").click()
        await expect(page.get_by_role("button", name="Create")).to_be_disabled()


async def test_an_administrator_logs_in_and_stays_logged_in(cluster: LocalCluster):
    async with page_of(cluster.public_url("broker-1"), allowed=("401",)) as page:
        await page.get_by_label("User").fill("admin")
        await page.get_by_label("Password").fill(PASSWORDS["admin"])
        await page.get_by_role("button", name="Log in").click()
        await expect(page.locator("#level")).to_have_text("healthy", timeout=15_000)
        await page.reload()
        await expect(page.locator("#level")).to_be_visible(timeout=15_000)
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_label("Password")).to_be_visible()


@pytest.mark.console
async def test_a_user_with_few_rights_sees_little_and_changes_nothing(cluster: LocalCluster):
    """The page is of the broker that does not coordinate the group, as far as there is one."""
    url, admin = cluster.public_url("broker-2"), basic("admin")
    rules = [
        {"principal": "ruled", "operation": "describe", "resource_type": kind, "resource_name": name}
        for kind, name in (("topic", "flights"), ("group", "readers"))
    ]
    async with http_to(url) as http:
        for topic in ("flights", "hidden"):
            body = {"topic": topic, "partitions": 2, "if_not_exists": True}
            assert (await http("POST", "/v1/topics", json=body, headers=admin)).status in (200, 201)
        assert (await http("POST", "/v1/acls", json={"acls": rules}, headers=admin)).status == 201
        for group in ("readers", "others"):
            body = {"offsets": [{"topic": topic, "partition": 0, "offset": 0} for topic in ("flights", "hidden")]}
            path = f"/v1/groups/{group}/offsets"
            while (await http("POST", path, json=body, headers=admin | {"Raftlog-Pass-On": "true"})).status != 200:
                await asyncio.sleep(0.1)  # The coordinators' topic was just created.
    async with page_of(url, allowed=("401", "403")) as page:
        await page.get_by_label("User").fill("ruled")
        await page.get_by_label("Password").fill(PASSWORDS["ruled"])
        await page.get_by_role("button", name="Log in").click()
        await page.get_by_role("link", name="Groups").click()
        await expect(page.get_by_text("1 to 1 of 1 groups")).to_be_visible()
        await page.get_by_role("link", name="readers").click()
        partitions = page.get_by_role("region", name="Partitions")
        await expect(partitions).to_contain_text("flights")
        await expect(partitions.get_by_text("hidden")).to_have_count(0)
        await expect(page.get_by_text("You may not change this group's offsets.")).to_be_visible()
        for name in ("Show the plan", "Delete the group and its offsets"):
            await expect(page.get_by_role("button", name=name)).to_be_disabled()
        await page.get_by_role("link", name="Topics").click()
        await expect(page.get_by_text("1 to 1 of 1 topics")).to_be_visible()
        await page.get_by_role("link", name="flights").click()
        await expect(page.get_by_text("You may not read its records.")).to_be_visible()
        await expect(page.get_by_role("button", name="Change retention_ms", exact=True)).to_be_disabled()
        await expect(page.get_by_role("button", name="Show the moves")).to_be_disabled()
        await expect(page.get_by_text("You may not alter the cluster.")).to_be_visible()
        await expect(page.get_by_role("checkbox", name="Broker 1")).to_be_disabled()
        await page.get_by_role("link", name="Security").click()
        await expect(page.get_by_role("button", name="Add the rule")).to_be_disabled()
        await expect(page.get_by_role("alert").filter(has_text="may not describe the cluster").first).to_be_visible()
        await expect(page.get_by_role("button", name="Show the change")).to_be_disabled()
        await expect(page.get_by_text("You may not alter settings of the cluster.")).to_be_visible()
        await page.get_by_role("link", name="Audit").click()
        await expect(page.get_by_role("button", name="Read")).to_be_disabled()
        await expect(
            page.get_by_text("You may not alter the cluster, so its audit logs are not shown.")
        ).to_be_visible()
        await page.get_by_role("link", name="Settings").click()
        await expect(page.get_by_role("alert").filter(has_text="may not describe_configs")).to_be_visible()


@pytest.mark.console
async def test_a_user_that_may_alter_the_cluster_but_no_settings_moves_replicas_without_a_limit(cluster: LocalCluster):
    url, admin = cluster.public_url("broker-1"), basic("admin")
    names = [("cluster", "cluster", operation) for operation in ("alter", "describe")] + [
        ("topic", "moved", "describe")
    ]
    rules = [
        {"principal": "nobody", "operation": operation, "resource_type": kind, "resource_name": name}
        for kind, name, operation in names
    ]
    async with http_to(url) as http, page_of(url, allowed=("401", "403")) as page:
        body = {"topic": "moved", "assignments": [[1]]}
        assert (await http("POST", "/v1/topics", json=body, headers=admin)).status == 201
        assert (await http("POST", "/v1/acls", json={"acls": rules}, headers=admin)).status == 201
        try:
            await log_in(page, "nobody", PASSWORDS["nobody"])
            await page.goto(f"{url}/console/#/topics/moved")
            await expect(page.get_by_label("Copy at most")).to_be_disabled()
            await page.get_by_role("checkbox", name="Broker 1").uncheck()
            await page.get_by_role("checkbox", name="Broker 2").check()
            await page.get_by_role("button", name="Show the moves").click()
            await page.get_by_role("button", name="Start this move").click()
            await expect(page.get_by_text("No replica of this topic moves any more.")).to_be_visible(timeout=30_000)
            found = (await http("GET", "/v1/topics/moved", headers=admin)).json["partitions"]
            assert found[0]["replicas"] == [2]
            await page.get_by_role("link", name="Security").click()
            await expect(page.get_by_role("button", name="Show the change")).to_be_disabled()
        finally:
            assert (await http("DELETE", "/v1/acls?principal=nobody", headers=admin)).status == 200


@pytest.mark.console
async def test_the_pages_work_with_tls_and_a_login(tmp_path: Path):
    """Also requests that one broker sends to another one."""
    authority = Authority.new(tmp_path / "ca")
    modes = {"public": "required", "internal": "required", "quorum": "required", "node_auth": "required"}
    tls, access = section(authority.issue("node"), **modes), {"super_users": ["User:admin"]}
    access["cluster_key_file"] = str(tmp_path / "cluster.key")
    (tmp_path / "cluster.key").write_text("k" * 40)
    extra = {"*": {"tls": tls, "security": access}}
    with LocalCluster(tmp_path / "cluster", controllers=1, brokers=2, port=0, extra=extra) as running:
        async with Admin(running.bootstrap, security=Security(ca_file=authority.ca_file)) as admin:
            await admin.put_user("admin", PASSWORDS["admin"])
        for name in running.names:
            running.configure(name, security=access | {"authorizer": "acl"})
            running.restart(name)
        running.wait_ready()
        async with page_of(running.public_url("broker-1"), allowed=("401",), ignore_https_errors=True) as page:
            await page.get_by_label("User").fill("admin")
            await page.get_by_label("Password").fill(PASSWORDS["admin"])
            await page.get_by_role("button", name="Log in").click()
            await expect(page.locator("#level")).to_have_text("healthy", timeout=20_000)
            await page.get_by_role("link", name="Brokers").click()
            await page.get_by_role("link", name="Broker 2").click()
            await expect(page.get_by_text("No damage is known")).to_be_visible()
            await page.get_by_role("link", name="Security").click()
            await expect(page.get_by_role("region", name="Users")).to_contain_text("admin")
            await expect(page.get_by_text("Access rules are enforced")).to_be_visible()


@pytest.mark.console
async def test_an_expired_session_is_told_and_a_late_answer_does_not_end_the_new_one(cluster: LocalCluster):
    url, held = cluster.public_url("broker-1"), asyncio.Queue[Route]()
    refused = {"error": {"code": "UNAUTHENTICATED", "message": "the token has expired", "details": {}}}
    async with page_of(url, allowed=("401", "403", "404")) as page:
        await log_in(page, "admin", PASSWORDS["admin"])
        await page.route("**/console/api/session?topic=*", held.put)
        await page.goto(f"{url}/console/#/topics/flights/records")
        late = await held.get()
        await page.route("**/v1/topics?*", lambda route: route.fulfill(json=refused, status=401))
        await page.get_by_role("link", name="Topics").click()
        await expect(page.get_by_text("The session has expired.")).to_be_visible()
        await page.unroute("**/v1/topics?*")
        await log_in(page, "ruled", PASSWORDS["ruled"])  # Two tokens of one user and second are the same.
        async with page.expect_response("**/console/api/session?topic=*") as answered:
            await late.fulfill(json=refused, status=401)
        await (await answered.value).finished()
        async with page.expect_response("**/v1/groups?*") as listed:
            await page.get_by_role("link", name="Groups").click()
        assert (await listed.value).status == 200
        await expect(page.get_by_role("button", name="Log out")).to_be_visible()
