"""Several log folders: partitions are spread and found again; a missing folder changes the storage id."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from raftlog.errors import ConfigError, ErrorCode
from raftlog.partition.storage.data_dir import DataDir, lacks_rebuilt
from raftlog.partition.storage.log_dirs import LogDirs

TOPIC_ID = "b" * 32


def opened(folder: Path, *names: str) -> LogDirs:
    return LogDirs.open(folder / "data", [folder / name for name in names], cluster_id="c", node_id=1)


def place(folders: LogDirs, partition: int) -> str:
    folder = folders.partition_folder("t", partition, TOPIC_ID)
    folder.mkdir(exist_ok=True)
    return folder.parent.parent.name


def test_partitions_go_where_fewest_are_and_stay(tmp_path: Path):
    first = opened(tmp_path, "a", "b")
    assert [place(first, partition) for partition in range(4)] == ["a", "b", "a", "b"]
    first.set_aside([first.partition_folder("t", 0, TOPIC_ID)])
    assert place(first, 9) == "a"
    first.close()

    again = opened(tmp_path, "b", "c", "a")
    assert [place(again, partition) for partition in (1, 2, 3, 9)] == ["b", "a", "b", "a"]
    assert [place(again, partition) for partition in (20, 21, 22)] == ["c", "c", "b"]
    assert sorted(stored.partition for stored in again.list_partitions()) == [1, 2, 3, 9, 20, 21, 22]
    again.close()


def test_the_longest_topic_name_leaves_room_for_what_is_added_to_the_name_of_its_folder(tmp_path: Path):
    topic = "x" * 249
    folders = opened(tmp_path, "a")
    for end in ("quarantined", "set aside", "stray"):
        for _ in range(12 if end == "quarantined" else 1):
            folder = folders.partition_folder(topic, 65_535, TOPIC_ID)
            assert not lacks_rebuilt(folder)
            folder.mkdir(exist_ok=True)
            if end == "quarantined":
                assert folders.quarantine(folder).is_dir()
        if end == "set aside":
            assert len(folders.set_aside([folder])) > 1, "with quarantined ones"
        elif end == "stray":
            assert folders.set_stray(folder).is_dir()
    folders.close()


def test_the_folder_of_an_earlier_version_is_found_by_its_whole_name(tmp_path: Path):
    topic = "x" * 210
    opened(tmp_path, "a").close()
    before = tmp_path / "a" / "partitions" / f"{topic}-0-{TOPIC_ID}"
    before.mkdir()
    folders = opened(tmp_path, "a")
    assert folders.partition_folder(topic, 0, TOPIC_ID) == before
    assert folders.partition_folder(topic, 1, TOPIC_ID).name == f"{'x' * 180}~-1-{TOPIC_ID}"
    folders.close()


def test_a_log_that_never_had_a_record_gives_its_place_back(tmp_path: Path):
    folders = opened(tmp_path, "a", "b")
    empty = folders.partition_folder("t", 0, TOPIC_ID)
    assert place(folders, 1) == "b"
    folders.release(empty)
    folders.release(folders.partition_folder("t", 1, TOPIC_ID))
    assert [place(folders, partition) for partition in (2, 3, 1)] == ["a", "a", "b"]
    folders.close()


def test_without_log_dirs_the_data_folder_has_them(tmp_path: Path):
    alone = opened(tmp_path)
    assert place(alone, 0) == "data"
    storage_id = alone.storage_id
    alone.close()
    with pytest.raises(ConfigError, match="has 1 partitions that would not be found: add it to log_dirs"):
        opened(tmp_path, "a")
    both = opened(tmp_path, "data", "a")
    assert (place(both, 0), place(both, 1), both.storage_id) == ("data", "a", storage_id)
    both.close()


def test_a_folder_more_keeps_the_identity_and_one_less_does_not(tmp_path: Path):
    ids = []
    for names in (("a", "b"), ("b", "a", "d"), ("a", "d"), ("a", "d")):
        folders = opened(tmp_path, *names)
        ids.append(folders.storage_id)
        folders.close()
    assert ids[0] == ids[1] != ids[2] == ids[3]


def test_an_empty_disk_in_the_place_of_one_that_failed_is_another_one(tmp_path: Path):
    first = opened(tmp_path, "a", "b")
    first.close()
    (tmp_path / "b").rename(tmp_path / "gone")
    again = opened(tmp_path, "a", "b")
    assert again.storage_id != first.storage_id
    again.close()


def test_a_copy_of_a_partition_is_refused(tmp_path: Path):
    folders = opened(tmp_path, "a", "b")
    place(folders, 0)
    folders.close()
    (tmp_path / "b" / "partitions" / f"t-0-{TOPIC_ID}").mkdir()
    with pytest.raises(ConfigError, match=r"is in .*a and in .*b: one of them is a copy"):
        opened(tmp_path, "a", "b")
    assert opened(tmp_path, "a")  # Nothing is locked any more.


def test_a_folder_of_another_node_is_refused_and_nothing_stays_locked(tmp_path: Path):
    DataDir.open(tmp_path / "b", cluster_id="c", node_id=2).close()
    with pytest.raises(ConfigError) as caught:
        opened(tmp_path, "a", "b")
    assert caught.value.code is ErrorCode.INCONSISTENT_CLUSTER_ID
    opened(tmp_path, "a").close()


def test_an_older_copy_of_one_disk_knows_no_later_process(tmp_path: Path):
    first = opened(tmp_path, "a", "b")
    first.registered(7)
    first.close()
    shutil.copytree(tmp_path / "b", tmp_path / "copy")
    second = opened(tmp_path, "a", "b")
    assert second.previous_incarnations == (first.incarnation_id,)
    second.registered(7)
    second.close()
    shutil.rmtree(tmp_path / "b")
    shutil.copytree(tmp_path / "copy", tmp_path / "b")
    assert second.incarnation_id not in (opened(tmp_path, "a", "b").previous_incarnations or ())


def test_an_unclean_end_of_one_disk_is_one_of_the_node(tmp_path: Path):
    folders = opened(tmp_path, "a", "b")
    folders.mark_clean()
    folders.close()
    run = tmp_path / "b" / "run.json"
    run.write_text('{"boot_id": "another", "clean": false, "unclean_before": false}')
    again = opened(tmp_path, "a", "b")
    assert (again.unclean, again.power_lost) == (True, True)
    again.registered(7)
    assert (again.unclean, again.power_lost) == (False, True)
    again.close()
