"""Where shards keep their data: names that no topic can have, old names renamed whole, and nothing out of sight unsaid."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ottla.base import ConfigError, NodeId, StorageError, TopicPartition, Uuid
from ottla.cli.commands.server import main
from ottla.cli.local import shard_folders
from ottla.cli.local.shard_folders import refuse_hiding_shards, rename_old_folders, shard_folder
from ottla.cli.local.shard_layout import SHARDS_FILE, shards_of
from ottla.config import BrokerConfig
from ottla.log import LogConfig, LogDir, MetaProperties, OsDisk

CLUSTER = "AAAAAAAAAAAAAAAAAAAAAA"
NOW = 1_700_000_000_000


def directory(path: Path, node_id: int, *partitions: str) -> Path:
    """Make a node's log directory with a log, which holds a file of its own, for each of these partitions."""
    log_dir = LogDir.open(OsDisk(), str(path))
    log_dir.format(
        MetaProperties(cluster_id=CLUSTER, node_id=NodeId(node_id), directory_id=Uuid(bytes([node_id]) * 16))
    )
    for each in partitions:
        topic, _, index = each.rpartition("-")
        log_dir.open_log(TopicPartition(topic, int(index)), LogConfig(), now_ms=NOW, topic_id=Uuid(b"t" * 16))
    log_dir.close()
    return path


def config(path: Path, text: str = "") -> BrokerConfig:
    return BrokerConfig.load(f"log.dirs={path}\nlisteners=PLAINTEXT://127.0.0.1:21100\n{text}")


def agreed(path: Path, **more: str) -> None:
    pairs = {"cluster_id": CLUSTER, "controller_port": "21150", **more}
    (path / SHARDS_FILE).write_text("{" + ",".join(f'"{key}": "{value}"' for key, value in pairs.items()) + "}")


def names(path: Path) -> set[str]:
    return {each.name for each in path.iterdir() if each.is_dir()}


def test_no_topic_can_have_the_folder_of_a_shard(tmp_path: Path) -> None:
    data = directory(tmp_path, 1, "t-0")
    directory(Path(shard_folder(str(data), 2)), 2, "t-1")
    log_dir = LogDir.open(OsDisk(), str(data))
    assert [str(each.partition) for each in log_dir.found()] == ["t-0"]
    log_dir.release()


@pytest.mark.parametrize("name", ["node-1", "shard.1"])
def test_a_server_without_shards_does_not_begin_in_their_folder(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    directory(tmp_path / name, 1, "t-0")
    settings = [f"log.dirs={tmp_path}", "listeners=PLAINTEXT://127.0.0.1:21100"]
    assert main(["start", *(word for each in settings for word in ("--override", each))]) == 1
    assert "it holds the data of shards (node 1): start it with --shards 1" in capsys.readouterr().err
    assert not (tmp_path / "meta.properties").exists() and (tmp_path / name / "t-0").is_dir()


def test_no_folder_of_shards_is_formatted_for_a_server_without_them(tmp_path: Path) -> None:
    directory(tmp_path / "shard.4", 4)
    properties = tmp_path / "server.properties"
    properties.write_text(f"log.dirs={tmp_path}\n")
    with pytest.raises(ConfigError, match=r"holds the data of shards \(node 4\): start it with --shards 4"):
        main(["format", "-t", CLUSTER, "-c", str(properties)])
    assert not (tmp_path / "meta.properties").exists()


def test_shards_do_not_begin_in_the_folder_of_a_server_without_them(tmp_path: Path) -> None:
    directory(tmp_path, 1, "node-1")
    with pytest.raises(ConfigError, match=r"data of a server without shards: start it without --shards"):
        shards_of(config(tmp_path), 2)
    assert names(tmp_path) == {"node-1"} and not (tmp_path / "node-1" / "meta.properties").exists()
    assert not (tmp_path / SHARDS_FILE).exists()


@pytest.mark.parametrize("name", ["node-{}", "shard.{}"])
def test_fewer_shards_than_hold_partitions_are_refused_with_what_to_do(tmp_path: Path, name: str) -> None:
    agreed(tmp_path)
    for each in (1, 2, 3):
        directory(tmp_path / name.format(each), each, *(["t-0"] if each != 2 else []))
    with pytest.raises(ConfigError, match=r"node 3 holds data .*: start with --shards 3, or move their partitions"):
        shards_of(config(tmp_path), 2)
    assert len(shards_of(config(tmp_path), 3)) == 3
    assert len(shards_of(config(tmp_path), 5)) == 5, "more of them hide nothing"


def test_a_shard_without_partitions_may_go(tmp_path: Path) -> None:
    agreed(tmp_path)
    directory(tmp_path / "shard.1", 1, "t-0")
    directory(tmp_path / "shard.2", 2)
    (tmp_path / "shard.2" / "__cluster_metadata-0").mkdir()
    assert len(shards_of(config(tmp_path), 1)) == 1


def test_a_shard_that_votes_does_not_go_unsaid(tmp_path: Path) -> None:
    directory(tmp_path / "shard.1", 1)
    directory(tmp_path / "shard.2", 2)
    text = (
        "listeners=PLAINTEXT://127.0.0.1:21100,CTL://127.0.0.1:21151\n"
        "process.roles=broker,controller\ncontroller.listener.names=CTL\n"
        "controller.quorum.voters=1@127.0.0.1:21151,2@127.0.0.1:21152,9@elsewhere:21151\n"
    )
    both = config(tmp_path, text)
    assert len(shards_of(both, 2)) == 2
    with pytest.raises(ConfigError, match="node 2 holds data"):
        shards_of(both, 1)


@pytest.mark.parametrize("said", [{}, {"controller": "1"}])
def test_another_node_id_is_refused_where_it_would_leave_the_controller_behind(
    tmp_path: Path, said: dict[str, str]
) -> None:
    agreed(tmp_path, **said)
    directory(tmp_path / "shard.1", 1)
    directory(tmp_path / "shard.2", 2, "t-0")
    with pytest.raises(ConfigError, match=r"node 1 is their controller: set node\.id=1"):
        shards_of(config(tmp_path, "node.id=2\n"), 2)


def test_folders_of_earlier_versions_get_their_new_names_with_all_that_is_in_them(tmp_path: Path) -> None:
    directory(tmp_path / "node-1", 1, "t-0", "node-1")
    directory(tmp_path / "node-12", 12, "t-1")
    before = {
        path.relative_to(tmp_path / "node-1"): path.read_bytes()
        for path in (tmp_path / "node-1").rglob("*")
        if path.is_file()
    }
    rename_old_folders(str(tmp_path))
    assert names(tmp_path) == {"shard.1", "shard.12"}
    assert before == {
        path.relative_to(tmp_path / "shard.1"): path.read_bytes()
        for path in (tmp_path / "shard.1").rglob("*")
        if path.is_file()
    }
    rename_old_folders(str(tmp_path))
    assert names(tmp_path) == {"shard.1", "shard.12"}


def test_a_process_that_ends_between_two_renames_is_followed_by_one_that_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for each in (1, 2, 3):
        directory(tmp_path / f"node-{each}", each, f"t-{each}")
    rename = os.rename
    for allowed in (0, 1, 1):
        left = [allowed]

        def dying(source: str, target: str, *more: object, left: list[int] = left) -> None:
            if not left[0]:
                raise KeyboardInterrupt
            left[0] -= 1
            rename(source, target)

        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            for name in ("rename", "replace"):
                patch.setattr(os, name, dying)
            rename_old_folders(str(tmp_path))
        assert len(names(tmp_path)) == 3
        assert len(shards_of(config(tmp_path), 3)) == 3
    rename_old_folders(str(tmp_path))
    assert names(tmp_path) == {"shard.1", "shard.2", "shard.3"}
    assert all((tmp_path / f"shard.{each}" / f"t-{each}").is_dir() for each in (1, 2, 3))


def test_a_folder_that_a_process_uses_keeps_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shard_folders, "RENAMED_SECONDS_MAX", 0.0)
    directory(tmp_path / "node-1", 1)
    used = LogDir.open(OsDisk(), str(tmp_path / "node-1"))
    with pytest.raises(StorageError, match="node-1 is in use by another process"):
        rename_old_folders(str(tmp_path))
    used.release()
    assert names(tmp_path) == {"node-1"}


def test_two_starts_at_once_rename_a_folder_once_and_neither_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one had found the old name before, and was told of two folders of one shard."""
    directory(tmp_path / "node-1", 1, "t-0")
    own, others = OsDisk.lock, [1]

    def late(self: OsDisk, path: str) -> object:
        if others and others.pop():
            rename_old_folders(str(tmp_path))
        return own(self, path)

    with monkeypatch.context() as patch:
        patch.setattr(OsDisk, "lock", late)
        rename_old_folders(str(tmp_path))
    assert names(tmp_path) == {"shard.1"} and (tmp_path / "shard.1" / "t-0").is_dir()


def test_a_start_waits_for_another_one_that_is_renaming_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory(tmp_path / "node-1", 1, "t-0")
    used, looked = LogDir.open(OsDisk(), str(tmp_path / "node-1")), []

    def other_ends(seconds: float) -> None:
        looked.append(seconds)
        used.release()

    monkeypatch.setattr(shard_folders.time, "sleep", other_ends)
    rename_old_folders(str(tmp_path))
    assert names(tmp_path) == {"shard.1"} and len(looked) == 1


def test_two_folders_of_one_shard_are_told_and_none_is_touched(tmp_path: Path) -> None:
    directory(tmp_path / "node-1", 1, "t-0")
    directory(tmp_path / "shard.1", 1, "t-1")
    with pytest.raises(StorageError, match=r"node-1 and .*shard\.1 both hold data of node 1: keep one"):
        rename_old_folders(str(tmp_path))
    assert (tmp_path / "node-1" / "t-0").is_dir() and (tmp_path / "shard.1" / "t-1").is_dir()


def test_a_folder_that_is_only_called_so_is_no_shards(tmp_path: Path) -> None:
    data = directory(tmp_path, 1, "node-1")
    directory(data / "node-7", 8)
    rename_old_folders(str(data))
    refuse_hiding_shards(config(data))
    assert names(data) == {"node-1", "node-7"}


def test_a_folder_that_both_have_used_goes_on_with_both_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    directory(tmp_path, 1, "t-0")
    agreed(tmp_path)
    directory(tmp_path / "node-1", 1, "t-1")
    refuse_hiding_shards(config(tmp_path))
    assert "holds data of shards too, node 1, which is shown with --shards only" in capsys.readouterr().err
    assert names(tmp_path) == {"t-0", "shard.1"}
    assert len(shards_of(config(tmp_path), 1)) == 1
    assert "data of a server without shards, too" in capsys.readouterr().err
