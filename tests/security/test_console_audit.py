"""The audit page of the console: lines of all brokers, filters, hostile values, and users that may not see it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from urllib.parse import quote

import pytest
from playwright.async_api import expect
from secured_support import PASSWORDS, basic, secured

from raftlog.cli.local_cluster import LocalCluster
from tests.broker.broker_support import http_to
from tests.broker.console_support import LOOKS, log_in, opened, page_of, require_accessible

pytestmark = [pytest.mark.cluster, pytest.mark.console, pytest.mark.timeout(180)]
HOSTILE = "<img src=x onerror=\"document.title='owned'\">\x1b[31m\u202e"


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with secured(tmp_path_factory.mktemp("secured"), audit_file="audit.jsonl", audit_interval_s=1) as running:
        yield running


async def test_lines_of_all_brokers_are_filtered_and_shown(cluster: LocalCluster):
    url = cluster.public_url("broker-1")
    async with page_of(url, allowed=("401",)) as page:
        for broker in ("broker-1", "broker-2"):
            async with http_to(cluster.public_url(broker)) as http:
                path = f"/v1/topics/{quote(f'{broker} {HOSTILE}', safe='')}"
                assert (await http("DELETE", path, headers=basic("nobody"))).status == 403
        await log_in(page, "admin", PASSWORDS["admin"])
        await page.get_by_role("link", name="Audit").click()
        table = page.get_by_role("region", name="Lines")
        await page.get_by_label("Sender").fill("NOBODY")
        await page.get_by_label("Resource").fill("onerror")
        await page.get_by_label("Outcome").select_option("denied")
        rows = table.get_by_role("row").filter(has_text="onerror")
        async with page.expect_response("**/v1/brokers/2/audit?*"):
            await page.get_by_role("button", name="Read").click()
        await expect(rows).to_have_count(2)
        for broker in ("broker-1", "broker-2"):
            row = rows.filter(has_text=f"topic {broker}")
            await expect(row.get_by_role("cell").nth(1)).to_have_text(broker)
            await expect(row).to_contain_text("User:nobody")
            await expect(row).to_contain_text(r"<img src=x")
            await expect(row).to_contain_text(r"\u001b[31m\u202e")
        await expect(page.locator("#audited")).to_have_text("2 lines, and no older ones.")
        await rows.first.get_by_role("button", name="Details").click()
        await expect(page.locator("#audit-line")).to_contain_text('"event": "denial"')
        await expect(page.get_by_role("region", name="The selected line")).to_contain_text("User:nobody may not")
        await page.get_by_label("From (UTC)").fill("tomorrow")
        await page.get_by_role("button", name="Read").click()
        await expect(page.locator("main [role=alert]:not(:empty)")).to_contain_text("Expected a time such as")
        await page.get_by_label("From (UTC)").fill("2100-01-01")
        await page.get_by_role("button", name="Read").click()
        await expect(page.locator("#audited")).to_have_text("0 lines, and no older ones.")
        assert await page.title() == "raftlog: Audit"


async def test_older_lines_follow_and_damaged_ones_are_shown(cluster: LocalCluster):
    path, url = cluster.data / "broker-2" / "audit.jsonl.1", cluster.public_url("broker-1")
    old = [
        {"time": f"2025-01-01T00:{number // 60:02d}:{number % 60:02d}.000+00:00", "node": "broker-2", "event": "use"}
        | {
            "principal": "User:old",
            "operation": "read",
            "resource": "topic",
            "name": f"t{number}",
            "outcome": "allowed",
        }
        for number in range(250)
    ]
    path.write_text("\n".join(map(json.dumps, old)) + f"\n{{torn {HOSTILE}\n" + json.dumps(old[-1])[:30])
    try:
        async with page_of(url, allowed=("401",)) as page:
            await log_in(page, "admin", PASSWORDS["admin"])
            await page.get_by_role("link", name="Audit").click()
            await page.get_by_label("Sender").fill("User:old")
            await page.get_by_role("button", name="Read").click()
            status, older = page.locator("#audited"), page.get_by_role("button", name="Older lines")
            await expect(status).to_contain_text("100 lines, back to 2025-01-01 00:02:30.000")
            await older.click()
            await expect(status).to_contain_text("200 lines, back to")
            await older.click()
            await expect(status).to_have_text("250 lines, and no older ones.")
            await expect(older).to_have_count(0)
            await page.get_by_role("button", name="More").click()
            await expect(page.get_by_role("region", name="Lines").get_by_role("row").last).to_contain_text("topic t0")
            await page.get_by_label("Sender").fill("")
            await page.get_by_role("button", name="Read").click()
            await expect(status).to_contain_text("back to 2025-01-01")
            while await older.count():
                await older.click()
                await expect(status).not_to_contain_text("Reading.")
            await expect(status).to_contain_text("no older ones")
            damaged = page.get_by_role("row").filter(has_text="unreadable")
            while not await damaged.count():
                await page.get_by_role("button", name="More").click()
            await damaged.get_by_role("button", name="Details").click()
            await expect(page.locator("#audit-line")).to_contain_text("{torn <img src=x")
            await expect(page.locator("#audit-line")).to_contain_text(r"\u001b[31m\u202e")
            assert await page.title() == "raftlog: Audit"
    finally:
        path.unlink()


@pytest.mark.parametrize("look", LOOKS)
async def test_axe_finds_nothing_serious(cluster: LocalCluster, look: str):
    async with page_of(cluster.public_url("broker-2"), allowed=("401",), **LOOKS[look], bypass_csp=True) as page:
        await log_in(page, "admin", PASSWORDS["admin"])
        await page.get_by_role("link", name="Audit").click()
        await page.get_by_role("button", name="Details").first.click()
        await require_accessible(page, "audit")


async def test_a_user_that_may_only_look_gets_no_lines(cluster: LocalCluster):
    rule = {"principal": "ruled", "operation": "describe", "resource_type": "cluster", "resource_name": "cluster"}
    url = cluster.public_url("broker-1")
    async with http_to(url) as http, page_of(url, allowed=("401",)) as page:
        assert (await http("POST", "/v1/acls", json={"acls": [rule]}, headers=basic("admin"))).status == 201
        asked = list[str]()
        page.on("request", lambda one: asked.append(one.url))
        await log_in(page, "ruled", PASSWORDS["ruled"])
        await page.get_by_role("link", name="Audit").click()
        await expect(page.get_by_text("so its audit logs are not shown")).to_be_visible()
        for name in ("Sender", "Resource", "Outcome", "From (UTC)"):
            await expect(page.get_by_label(name)).to_be_disabled()
        await expect(page.get_by_role("button", name="Read")).to_be_disabled()
        assert not [each for each in asked if "audit?" in each]


async def test_without_an_audit_log_the_page_says_what_to_set(shared_cluster: LocalCluster):
    url = shared_cluster.public_url("broker-1")
    async with page_of(url) as page:
        await opened(page, url, "audit")
        await expect(page.get_by_text("No broker keeps an audit log. It needs security.authorizer")).to_be_visible()


async def test_a_broker_that_does_not_answer_hides_no_other_one(cluster: LocalCluster):
    url = cluster.public_url("broker-1")
    async with page_of(url, allowed=("401", "503")) as page:
        refused = {"error": {"code": "BROKER_NOT_AVAILABLE", "message": "cannot connect <b>to 2</b>", "details": {}}}
        await page.route("**/v1/brokers/2/audit?*", lambda route: route.fulfill(json=refused, status=503))
        await log_in(page, "admin", PASSWORDS["admin"])
        await page.get_by_role("link", name="Audit").click()
        await expect(page.get_by_text("Broker 2: cannot connect <b>to 2</b>")).to_be_visible()
        await expect(page.get_by_role("region", name="Lines").get_by_text("broker-1").first).to_be_visible()
