"""Doctor's checks of a machine and of a node's files, and the looks that gather the facts."""

from __future__ import annotations

import datetime as dt
import ssl
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import trustme

from raftlog.broker.open_files import wanted_files
from raftlog.cli.daemon_threads import in_thread, run_bounded
from raftlog.cli.doctor import machine_facts
from raftlog.cli.doctor.certificates import end_of
from raftlog.cli.doctor.clocks import difference
from raftlog.cli.doctor.facts import FileFacts, FolderFacts, MachineFacts, NodeSettings
from raftlog.cli.doctor.findings import cleaned
from raftlog.cli.doctor.machine_checks import check_machine
from raftlog.cli.doctor.machine_facts import gather_machine, look_at_folder
from raftlog.cli.doctor.machine_texts import control_groups, cpus_allowed, filesystem_of, memory_of, number

NOW = 1_800_000_000.0
FOLDER = FolderFacts(
    path="/d", filesystem="ext4", total_bytes=100 << 30, free_bytes=50 << 30, sync_ms=(1.0, 2.0, 30.0), owner=("c", 1)
)
KEY = FileFacts(setting="security.cluster_key_file", path="/k", mode=0o600)
SETTINGS = NodeSettings(cluster_id="c", node_id=1, is_broker=True, nofile_wanted=20_000, memory_wanted=1 << 30)
HEALTHY = MachineFacts(
    now_s=NOW,
    settings=SETTINGS,
    cpus=4,
    memory_bytes=8 << 30,
    swappiness=60,
    congestion="cubic",
    nofile=65_536,
    folders=(FOLDER,),
    files=(KEY,),
)


def found_in(facts: MachineFacts) -> list[tuple[str, str, str]]:
    return [
        (each.severity, each.check, f"{each.where}: {each.found}")
        for each in cleaned(check_machine(facts))
        if each.severity != "ok"
    ]


def test_a_healthy_machine_has_no_finding_but_healthy_ones():
    assert found_in(HEALTHY) == []


def folder(**changed: Any) -> dict[str, Any]:
    return {"folders": (replace(FOLDER, **changed),)}


STORIES: dict[str, tuple[dict[str, Any], tuple[str, str, str]]] = {
    "a folder that cannot be used": (folder(error="Permission denied"), ("error", "data folder", "Permission denied")),
    "a folder that is missing": (folder(missing=True), ("note", "data folder", "does not exist yet")),
    "a folder of another node": (folder(owner=("c", 2)), ("error", "data folder", "belongs to node 2 of cluster c")),
    "memory in place of a disk": (folder(filesystem="tmpfs"), ("error", "file system", "/d: tmpfs: it is in memory")),
    "a disk of another machine": (folder(filesystem="nfs4"), ("warning", "file system", "nfs4: syncs and locks")),
    "a layer of a container": (folder(filesystem="overlay"), ("warning", "file system", "a layer of a container")),
    "a slow disk": (folder(sync_ms=(30.0, 40.0, 50.0)), ("warning", "disk speed", "takes 40.0 ms, at most 50.0 ms")),
    "a very slow disk": (folder(sync_ms=(900.0,)), ("error", "disk speed", "takes 900.0 ms")),
    "a disk that hangs": (folder(sync_ms=()), ("warning", "disk speed", "no sync ended before the deadline")),
    "a disk that is full": (folder(sync_error="No space left"), ("warning", "disk speed", "synced: No space left")),
    "little free space": (folder(free_bytes=5 << 30), ("warning", "free space", "(5%)")),
    "nearly no free space": (folder(free_bytes=1 << 30), ("error", "free space", "(1%)")),
    "a quarantined log": (folder(quarantined=1), ("warning", "replicas", "/d: 1 damaged logs are set aside")),
    "a key that others may read": (
        {"files": (replace(KEY, mode=0o644),)},
        ("error", "key files", "security.cluster_key_file (/k): every user of this machine may read it (mode 0644)"),
    ),
    "a key that its group may read": ({"files": (replace(KEY, mode=0o640),)}, ("note", "key files", "its group")),
    "a missing file": ({"files": (replace(KEY, error="No such file"),)}, ("error", "files", "(/k): No such file")),
    "a certificate that ends": (
        {"files": (FileFacts(setting="tls.cert_file", path="/c", certificate_end_s=NOW + 86_400),)},
        ("error", "certificates", "tls.cert_file (/c): ends in 24 h"),
    ),
    "settings that are wrong": (
        {"settings": None, "settings_error": "node_id: missing"},
        ("error", "settings", "node_id: missing"),
    ),
    "an open port without access rules": (
        {"settings": replace(SETTINGS, open_listeners=("0.0.0.0:9400",))},
        ("warning", "access rules", "security.authorizer is off, and other machines reach 0.0.0.0:9400"),
    ),
    "few open files": (
        {"nofile": 1_024},
        ("warning", "open files", "a limit of 1,024 here; the settings allow 20,000"),
    ),
    "little memory": ({"memory_bytes": 512 << 20}, ("warning", "memory", "537 MB; the node's buffers may take 1.1 GB")),
    "one CPU": ({"cpus": 1}, ("note", "CPUs", "1 usable")),
    "swap": ({"swap_bytes": 2 << 30}, ("warning", "swap", "2.1 GB of swap, and vm.swappiness is 60")),
    "bbr with reno": (
        {"congestion": "bbr", "congestions": ("bbr", "reno")},
        ("note", "congestion control", "nodes select reno"),
    ),
    "bbr without reno": (
        {"congestion": "bbr", "congestions": ("bbr",)},
        ("warning", "congestion control", "reno is not allowed here (bbr)"),
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_finding_says_what_was_received(story: str):
    changed, (severity, check, text) = STORIES[story]
    found = found_in(replace(HEALTHY, **changed))
    assert [(s, c) for s, c, t in found if text in t] == [(severity, check)], found
    assert len(found) == 1, found


def test_swap_that_is_hardly_used_and_an_unlimited_machine_are_healthy():
    assert found_in(replace(HEALTHY, swap_bytes=1 << 30, swappiness=1, nofile=-1)) == []
    assert found_in(MachineFacts(now_s=NOW)) == []
    assert found_in(replace(HEALTHY, nofile=1_024, settings=replace(SETTINGS, nofile_wanted=0))) == []


def test_the_limit_of_files_leaves_the_default_settings_as_they_are():
    assert wanted_files(10_000, segments=1_000) == 23_048


# The looks.


def test_a_folder_is_measured_and_nothing_is_left_in_it(tmp_path: Path):
    (tmp_path / "partitions" / "t-0-1.quarantined-1").mkdir(parents=True)
    (tmp_path / "meta.json").write_text('{"cluster_id": "c", "node_id": 7}')
    before = sorted(tmp_path.rglob("*"))
    facts = look_at_folder(tmp_path, time.monotonic() + 60)
    assert sorted(tmp_path.rglob("*")) == before
    assert facts.sync_ms
    assert len(facts.sync_ms) <= machine_facts.SYNC_TRIES
    assert (facts.error, facts.missing, facts.quarantined, facts.owner) == ("", False, 1, ("c", 7))
    assert facts.filesystem
    assert 0 < facts.free_bytes <= facts.total_bytes


def test_a_folder_that_is_missing_or_no_folder_is_said_to_be_so(tmp_path: Path):
    (tmp_path / "file").touch()
    missing, file = (look_at_folder(tmp_path / name, 0) for name in ("new/data", "file"))
    assert missing.missing
    assert missing.sync_ms == ()
    assert not (tmp_path / "new").exists()
    assert "is not a folder" in file.error


@pytest.mark.parametrize("text", ["", "[]", '{"cluster_id": 1}', '{"cluster_id": "c", "node_id": "x"}', "[" * 100_000])
def test_a_damaged_owner_file_is_no_crash(tmp_path: Path, text: str):
    (tmp_path / "meta.json").write_text(text)
    assert look_at_folder(tmp_path, 0).owner is None


async def test_a_disk_that_hangs_is_a_finding_before_the_deadline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    release = threading.Event()
    monkeypatch.setattr(machine_facts, "look_at_folder", lambda *_: release.wait(60))
    try:
        facts = await gather_machine(None, [tmp_path], timeout_s=0.2)
    finally:
        release.set()
    assert "hangs" in facts.folders[0].error


async def test_settings_that_cannot_be_read_are_a_fact(tmp_path: Path):
    facts = await gather_machine(tmp_path / "none.toml", [], timeout_s=30)
    assert "cannot read" in facts.settings_error
    assert facts.cpus > 0
    assert facts.memory_bytes > 0


def test_a_call_that_hangs_does_not_keep_the_loop_from_ending():
    release = threading.Event()

    async def hang() -> str:
        try:
            await in_thread(lambda: release.wait(60), timeout_s=0.05)
        except TimeoutError:
            return "late"
        return "done"

    try:
        assert run_bounded(hang()) == "late"
    finally:
        release.set()


def test_files_with_certificates_and_keys_are_looked_at(tmp_path: Path):
    until = dt.datetime(2031, 5, 6, 7, 8, 9, tzinfo=dt.UTC)
    issued = trustme.CA().issue_cert("localhost", not_after=until)
    (tmp_path / "c.pem").write_bytes(b"text\n" + issued.cert_chain_pems[0].bytes())
    (tmp_path / "k.pem").write_bytes(issued.private_key_pem.bytes())
    (tmp_path / "k.pem").chmod(0o604)
    certificate = machine_facts.look_at_file("tls.cert_file", tmp_path / "c.pem")
    assert certificate.certificate_end_s == until.timestamp()
    assert machine_facts.look_at_file("tls.key_file", tmp_path / "k.pem").mode == 0o604
    with pytest.raises(ValueError, match="no certificate"):
        machine_facts.look_at_file("tls.cert_file", tmp_path / "k.pem")


# The parsers.


def test_the_end_of_a_certificate_is_read_and_a_damaged_one_is_a_value_error():
    until = dt.datetime(2061, 5, 6, 7, 8, 9, tzinfo=dt.UTC)  # As GeneralizedTime; earlier ones are UTCTime.
    der = ssl.PEM_cert_to_DER_cert(trustme.CA().issue_cert("a", not_after=until).cert_chain_pems[0].bytes().decode())
    assert end_of(der) == until.timestamp()
    for cut in range(len(der) // 4):
        with pytest.raises(ValueError, match="certificate"):
            end_of(der[:cut])
    for at in range(200):
        damaged = bytearray(der)
        damaged[at] ^= 0xFF
        try:
            end_of(bytes(damaged))
        except ValueError:
            continue


def test_a_clock_is_known_as_an_interval():
    date = "Fri, 15 Jan 2027 08:00:00 GMT"  # NOW
    assert difference(date, NOW + 0.25, NOW + 0.5) == (-0.5, 0.75)
    for wrong in ("", "yesterday", "Fri, 99 Jan 2027 08:00:00 GMT", "x" * 10_000, "Fri, 15 Jan 99999999 08:00:00 GMT"):
        assert difference(wrong, NOW, NOW) is None


def test_a_mount_is_found_by_the_longest_path():
    text = """
22 1 254:0 / / rw - ext4 /dev/vda rw
23 22 0:21 / /run rw shared:1 - tmpfs tmpfs rw
24 22 0:22 / /mnt/my\\040disk rw - nfs4 host:/x rw
broken
"""
    assert [filesystem_of(text, path) for path in ("/var", "/run/x", "/running", "/mnt/my disk/a")] == [
        "ext4", "tmpfs", "ext4", "nfs4",
    ]  # fmt: skip
    assert filesystem_of("", "/var") == ""


def test_texts_of_the_system_are_read():
    assert memory_of("MemTotal:       1024 kB\nSwapTotal:      0 kB\n") == (1 << 20, 0)
    assert memory_of("") == (0, 0)
    assert control_groups("0::/a/b\n") == ["a/b", "a", ""]
    assert control_groups("1:cpu:/x\n") == [""]
    assert control_groups("0::/../../etc\n") == ["etc", ""]
    assert (number("12\n"), number("max"), number("")) == (12, None, None)
    assert (cpus_allowed("150000 100000\n"), cpus_allowed("max 100000"), cpus_allowed("1 0")) == (1.5, None, None)
