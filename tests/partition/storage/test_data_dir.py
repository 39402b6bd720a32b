"""A data folder belongs to one node of one cluster, and to one process at a time."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path

import pytest

from raftlog.errors import ConfigError, DiskFullError, ErrorCode, StorageError
from raftlog.partition.storage import data_dir
from raftlog.partition.storage.data_dir import DataDir, remove_folders


def test_a_folder_is_claimed_and_found_again(tmp_path: Path):
    with_partition = DataDir.open(tmp_path / "d", cluster_id="c", node_id=1)
    folder = with_partition.partition_folder("a-b-1", 3, "f" * 32)
    folder.mkdir()
    (with_partition.partitions / "lost+found").mkdir()
    with_partition.close()

    again = DataDir.open(tmp_path / "d", cluster_id="c", node_id=1)

    (found,) = again.list_partitions()
    assert (found.topic, found.partition, found.topic_id, found.folder) == ("a-b-1", 3, "f" * 32, folder)
    remove_folders(again.set_aside([folder]))
    assert list(again.list_partitions()) == []
    assert not folder.exists()
    again.close()


@pytest.mark.parametrize(("cluster_id", "node_id"), [("other", 1), ("c", 2)])
def test_a_folder_of_another_cluster_or_node_is_refused(tmp_path: Path, cluster_id: str, node_id: int):
    DataDir.open(tmp_path / "d", cluster_id="c", node_id=1).close()

    with pytest.raises(ConfigError, match="belongs to node 1 of cluster c") as caught:
        DataDir.open(tmp_path / "d", cluster_id=cluster_id, node_id=node_id)

    assert caught.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
    DataDir.open(tmp_path / "d", cluster_id="c", node_id=1).close()


def test_a_folder_in_use_is_refused(tmp_path: Path):
    opened = DataDir.open(tmp_path / "d", cluster_id="c", node_id=1)

    with pytest.raises(ConfigError, match="in use by another process"):
        DataDir.open(tmp_path / "d", cluster_id="c", node_id=1)
    opened.close()


def test_a_damaged_meta_file_is_not_overwritten(tmp_path: Path):
    (tmp_path / "d").mkdir()
    (tmp_path / "d" / "meta.json").write_text("{")

    with pytest.raises(StorageError, match=r"cannot read .*meta\.json"):
        DataDir.open(tmp_path / "d", cluster_id="c", node_id=1)
    assert (tmp_path / "d" / "meta.json").read_text() == "{"


def test_a_path_that_cannot_be_a_folder(tmp_path: Path):
    (tmp_path / "file").write_text("")

    with pytest.raises(StorageError, match=r"cannot use .*file as data folder"):
        DataDir.open(tmp_path / "file", cluster_id="c", node_id=1)


def run_again(folder: Path, *, reboot: bool = False) -> DataDir:
    if reboot:
        run = json.loads((folder / "run.json").read_text())
        del run["crc32c"]
        (folder / "run.json").write_text(json.dumps({**run, "boot_id": "another boot"}))
    return DataDir.open(folder, cluster_id="c", node_id=1)


def test_a_killed_process_loses_nothing_and_a_machine_that_went_down_may(tmp_path: Path):
    """KIP-966: what was written and not synced survives the process, but not the machine."""
    folder = tmp_path / "d"
    first = run_again(folder)
    assert not first.unclean
    first.close()
    killed = run_again(folder)
    assert not killed.unclean
    killed.close()
    assert run_again(folder, reboot=True).unclean


def test_a_clean_end_is_clean_whatever_happens_to_the_machine(tmp_path: Path):
    folder = tmp_path / "d"
    first = run_again(folder)
    first.mark_clean()
    first.close()
    again = run_again(folder, reboot=True)
    assert not again.unclean
    again.close()
    assert run_again(folder, reboot=True).unclean


def test_an_unclean_end_is_remembered_until_it_is_settled(tmp_path: Path):
    """A process that dies before it could tell the controllers leaves that to the next one."""
    folder = tmp_path / "d"
    run_again(folder).close()
    run_again(folder, reboot=True).close()
    told = run_again(folder)
    assert told.unclean
    told.registered(7)
    told.close()
    settled = run_again(folder)
    assert not settled.unclean
    settled.close()


def test_a_folder_that_does_not_say_how_its_last_run_ended_was_left_uncleanly(tmp_path: Path):
    folder = tmp_path / "d"
    run_again(folder).close()
    (folder / "run.json").unlink()
    again = run_again(folder)
    assert (again.unclean, again.power_lost, again.previous_incarnations) == (True, True, None)
    again.close()


def test_a_folder_knows_which_processes_may_have_registered_last(tmp_path: Path):
    """The answer to a registration may be lost: all since the last one that was answered may be meant."""
    first = run_again(tmp_path / "d")
    assert first.previous_incarnations is None
    first.registered(7)
    first.close()
    names = [first.incarnation_id]
    for _ in range(3):
        again = run_again(tmp_path / "d")
        assert again.previous_incarnations == tuple(names)
        names.append(again.incarnation_id)
        again.close()
    told = run_again(tmp_path / "d")
    told.registered(7)
    told.mark_clean()
    told.close()
    assert run_again(tmp_path / "d").previous_incarnations == (told.incarnation_id,)


def test_a_process_that_never_registers_forgets_no_earlier_registration(tmp_path: Path, monkeypatch):
    monkeypatch.setattr(data_dir, "MAX_INCARNATIONS", 2)
    first = run_again(tmp_path / "d")
    first.registered(7)
    first.close()
    for _ in range(5):
        again = run_again(tmp_path / "d")
        again.close()
    told = again.previous_incarnations
    assert (told[0], len(told)) == (first.incarnation_id, 4)


def test_lost_power_is_remembered_until_every_log_was_opened(tmp_path: Path):
    """A process that dies after it has told the controllers, and before it has cut what is torn, leaves that."""
    folder = tmp_path / "d"
    run_again(folder).close()
    told = run_again(folder, reboot=True)
    told.registered(7)
    told.close()
    opening = run_again(folder)
    assert (opening.unclean, opening.power_lost) == (False, True)
    opening.settle_power_loss()
    opening.close()
    assert not run_again(folder).power_lost


@pytest.mark.parametrize("refused", ["rename", "sync"])
def test_a_name_that_the_disk_does_not_forget_is_said(tmp_path: Path, monkeypatch, refused: str):
    opened = DataDir.open(tmp_path / "d", cluster_id="c", node_id=1)
    folder = opened.partition_folder("t", 0, "f" * 32)
    folder.mkdir()

    def fail(*_: object) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(*((data_dir.os, "rename") if refused == "rename" else (data_dir, "fsync_dir")), fail)
        with pytest.raises(StorageError, match=r"cannot delete .*t-0-f+: Input/output error"):
            opened.set_aside([folder])
    opened.close()


def test_what_cannot_be_removed_goes_at_the_next_start(tmp_path: Path, monkeypatch):
    """Seed 591 of the simulated cluster: a broker ended whose disk failed just then."""
    opened = DataDir.open(tmp_path / "d", cluster_id="c", node_id=1)
    folder = opened.partition_folder("t", 0, "f" * 32)
    folder.mkdir()

    def fail(path: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with monkeypatch.context() as patched:
        patched.setattr(data_dir.shutil, "rmtree", fail)
        remove_folders(opened.set_aside([folder]))
    assert list(opened.list_partitions()) == []
    assert len(list(opened.partitions.iterdir())) == 1
    opened.close()

    again = DataDir.open(tmp_path / "d", cluster_id="c", node_id=1)
    assert list(again.partitions.iterdir()) == []
    again.close()


def test_a_partition_is_deleted_again_while_the_first_folder_is_still_there(tmp_path: Path):
    """The partition went to another broker, came back and went again, before its first folder was removed."""
    opened = DataDir.open(tmp_path / "d", cluster_id="c", node_id=1)
    folder = opened.partition_folder("t", 0, "f" * 32)
    doomed = []
    for _ in range(3):
        folder.mkdir()
        (folder / "0.log").touch()
        doomed += opened.set_aside([folder])
    assert list(opened.list_partitions()) == []
    assert sorted(doomed) == sorted(opened.partitions.iterdir())
    remove_folders(doomed[:1])
    opened.close()

    again = DataDir.open(tmp_path / "d", cluster_id="c", node_id=1)
    assert list(again.partitions.iterdir()) == []
    again.close()


def test_the_folders_of_many_partitions_are_set_aside_by_one_listing_and_one_sync(tmp_path: Path, monkeypatch):
    opened = DataDir.open(tmp_path / "d", cluster_id="c", node_id=1)
    folders = [opened.partition_folder("t", number, "f" * 32) for number in range(100)]
    for folder in folders:
        folder.mkdir()
        folder.with_name(f"{folder.name}.quarantined-1").mkdir()
    listings, syncs, listdir, fsync_dir = [], [], os.listdir, data_dir.fsync_dir
    monkeypatch.setattr(data_dir.os, "listdir", lambda path: listings.append(path) or listdir(path))
    monkeypatch.setattr(data_dir, "fsync_dir", lambda path: syncs.append(path) or fsync_dir(path))

    doomed = opened.set_aside(folders[:90])

    assert (len(doomed), len(listings), len(syncs)) == (180, 1, 1)
    assert opened.quarantined == 10
    remove_folders(doomed)
    assert len(listdir(opened.partitions)) == 20
    opened.close()


@pytest.mark.parametrize("note", [lambda data_dir: data_dir.registered(7), DataDir.mark_clean])
def test_a_full_disk_ends_no_broker_for_a_note_that_saves_work(tmp_path: Path, monkeypatch, note):
    """Seed 153 of the simulated cluster: a broker that came back from a power loss onto a full disk ended."""
    folder = tmp_path / "d"
    run_again(folder).close()
    back = run_again(folder, reboot=True)

    def full(path: Path, value: object) -> None:
        raise DiskFullError(f"cannot write {path}: No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(data_dir, "write_json", full)
        note(back)
    back.close()

    assert run_again(folder).unclean


def test_a_folder_has_an_identity_that_goes_with_its_records(tmp_path: Path):
    first = run_again(tmp_path / "d")
    first.close()
    again = run_again(tmp_path / "d")
    again.close()
    other = run_again(tmp_path / "e")
    other.close()
    assert first.storage_id == again.storage_id != other.storage_id


def test_other_users_of_the_machine_may_not_read_new_folders(tmp_path: Path):
    """Under the usual umask they read records, and `run.json`, whose id exempts from quotas."""
    before = os.umask(0o022)
    try:
        DataDir.open(tmp_path / "a" / "b", cluster_id="c", node_id=1).close()
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a", "a/b")] == [0o700, 0o700]
