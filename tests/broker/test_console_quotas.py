"""Quotas in the console: for users, client ids and defaults, in units that people read, with a plan first."""

from __future__ import annotations

import pytest
from broker_support import http_to
from console_support import LOOKS, opened, page_of, require_accessible
from playwright.async_api import expect

from raftlog import Admin
from raftlog.cli.local_cluster import LocalCluster

pytestmark = [pytest.mark.cluster, pytest.mark.console]


async def limits(admin: Admin, user: str, client_id: str = "") -> dict[str, float]:
    found = [one.limits for one in await admin.quotas() if (one.user, one.client_id) == (user, client_id)]
    return dict(found[0]) if found else {}


async def test_a_quota_is_set_changed_and_deleted(shared_cluster: LocalCluster, topic_name: str):
    url, user = shared_cluster.public_url("broker-1"), topic_name
    async with Admin(url) as admin, page_of(url) as page:
        await opened(page, url, "security")
        form, plan = page.get_by_role("form", name="A quota"), page.get_by_role("region", name="Plan of the quota")
        await form.get_by_label("Name of the user").fill(user)
        await form.get_by_label("Writes (MB/s)").fill("many")
        await form.get_by_role("button", name="Show the change").click()
        await expect(form.get_by_role("alert")).to_contain_text("Writes: expected MB/s such as 20")
        await form.get_by_label("Writes (MB/s)").fill("12.345678")
        await form.get_by_label("Computing time (%)").fill("12.5 %")
        await form.get_by_role("button", name="Show the change").click()
        await expect(plan.get_by_role("row").nth(1)).to_contain_text("no limit12.345678 MB/s")
        await expect(plan.get_by_role("row").nth(2)).to_contain_text("12.5 %")
        assert await limits(admin, user) == {}
        await page.get_by_role("button", name="Save this quota").click()
        await expect(page.get_by_text(f"The quota of user {user} is changed.")).to_be_visible()
        assert await limits(admin, user) == {"producer_byte_rate": 12_345_678, "request_percentage": 12.5}
        await expect(form.get_by_label("Writes (MB/s)")).to_have_value("")

        row = page.get_by_role("region", name="Quotas").get_by_role("row").filter(has_text=user)
        await expect(row).to_contain_text("12.345678 MB/s")
        await row.get_by_role("button", name="Change the quota").click()
        await expect(form.get_by_label("Name of the user")).to_be_disabled()
        await expect(form.get_by_label("Writes (MB/s)")).to_have_value("12.345678")
        await form.get_by_label("Reads (MB/s)").fill("500 kB/s")
        await form.get_by_label("Computing time (%)").fill("")
        await form.get_by_role("button", name="Show the change").click()
        await expect(plan.get_by_role("row")).to_have_count(3)
        await page.get_by_role("button", name="Save this quota").click()
        await expect(row).to_contain_text("500 kB/s")
        assert await limits(admin, user) == {"producer_byte_rate": 12_345_678, "consumer_byte_rate": 500_000}

        await row.get_by_role("button", name="Delete the quota").click()
        await expect(plan.get_by_role("row").nth(1)).to_contain_text("no limit")
        assert await limits(admin, user) != {}
        await page.get_by_role("button", name="Delete this quota").click()
        await expect(row).to_have_count(0)
        assert await limits(admin, user) == {}


async def test_defaults_and_pairs_have_quotas_and_a_second_form_keeps_what_it_does_not_name(
    shared_cluster: LocalCluster, topic_name: str
):
    url = shared_cluster.public_url("broker-3")
    async with Admin(url) as admin, page_of(url) as page:
        await admin.alter_quota({"request_rate": 1_000_000}, user="*", client_id=topic_name)
        try:
            await opened(page, url, "security")
            form = page.get_by_role("form", name="A quota")
            await form.get_by_role("combobox", name="Limit").select_option("each user without its own")
            await form.get_by_role("combobox", name="with").select_option("this client id")
            await form.get_by_label("Name of the client id").fill(topic_name)
            await form.get_by_label("Writes (MB/s)").fill("1 GB")
            await form.get_by_role("button", name="Show the change").click()
            plan = page.get_by_role("region", name="Plan of the quota")
            await expect(plan.get_by_role("row")).to_have_count(2)
            await page.get_by_role("button", name="Save this quota").click()
            row = page.get_by_role("region", name="Quotas").get_by_role("row").filter(has_text=topic_name)
            await expect(row).to_contain_text("1 GB/s")
            await expect(row).to_contain_text("each other user")
            await expect(row).to_contain_text("1,000,000 a second")
            assert await limits(admin, "*", topic_name) == {"producer_byte_rate": 1e9, "request_rate": 1e6}
        finally:
            none = {"producer_byte_rate": None, "request_rate": None}
            await admin.alter_quota(none, user="*", client_id=topic_name)


@pytest.mark.timeout(180)
@pytest.mark.parametrize("look", LOOKS)
async def test_hostile_names_are_text_and_axe_finds_nothing_serious(
    shared_cluster: LocalCluster, topic_name: str, look: str
):
    """The answer is made here: the API refuses such names."""
    url = shared_cluster.public_url("broker-2")
    hostile = "<img src=x onerror=\"document.title='owned'\">\x1b[31m\u202e" + "n" * 500
    quotas = [
        {"user": hostile, "client_id": "", "limits": {"producer_byte_rate": 1e7, "<b>later</b>": 5}},
        {"user": "*", "client_id": "*", "limits": {"request_percentage": 12.5, "consumer_byte_rate": 2e6}},
    ]
    async with http_to(url) as http, page_of(url, **LOOKS[look], bypass_csp=True) as page:
        assert (await http("GET", "/v1/quotas")).json["enforced_for"] == "anonymous"
        answer = {"quotas": quotas, "enforced_for": "anonymous"}
        await page.route("**/v1/quotas", lambda route: route.fulfill(json=answer))
        await opened(page, url, "security")
        row = page.get_by_role("region", name="Quotas").get_by_role("row").nth(1)
        await expect(row).to_contain_text("<img src=x")
        await expect(row).to_contain_text(r"\u001b[31m\u202e")
        await expect(row).to_contain_text("<b>later</b>: 5")
        await expect(page.get_by_text("Every client is the user ANONYMOUS")).to_be_visible()
        await row.get_by_role("button", name="Delete the quota").click()
        await expect(page.get_by_role("region", name="Plan of the quota")).to_contain_text("<b>later</b>")
        await require_accessible(page, "quotas")
        assert await page.title() == "raftlog: Security"
