"""Checkpoints of state: bytes that come back as they were, or not at all, and when a restart may begin with them."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ottla.base import TopicPartition
from ottla.spark.continuous.checkpoint_files import CheckpointFiles
from ottla.streams import (
    AGE_MS_MAX,
    Bounds,
    ChangelogPosition,
    DamagedCheckpointError,
    StateCheckpoint,
    StreamsWork,
    WorkIdentity,
    read_checkpoint,
    why_unusable,
    written_checkpoint,
)

WORK = StreamsWork("counts", 1, 0)
INPUT, LOG = TopicPartition("in", 0), TopicPartition("counts-store-changelog", 0)
IDENTITY = WorkIdentity("cluster", WORK, "shape")
BLOBS = {"store/": b"\x01rows", "store/0.0": bytes(range(256)), "task": b""}
STATE = StateCheckpoint(IDENTITY, 1_000_000, {INPUT: 50}, {LOG: ChangelogPosition("id", 70)}, BLOBS)


def why(found: StateCheckpoint = STATE, **other: Any) -> str | None:
    given: dict[str, Any] = {
        "identity": IDENTITY,
        "committed": {INPUT: 60},
        "changelogs": {LOG: Bounds("id", 0, 90)},
        "now_ms": 1_030_000,
        **other,
    }
    return why_unusable(found, given.pop("identity"), **given)


def test_a_checkpoint_comes_back_as_it_was_written() -> None:
    assert read_checkpoint(b"".join(written_checkpoint(STATE))) == STATE


@pytest.mark.parametrize("harm", ["cut", "longer", "flipped", "empty", "foreign"])
def test_bytes_that_are_not_those_that_were_written_are_refused(harm: str) -> None:
    data = b"".join(written_checkpoint(STATE))
    cases = {
        "cut": [data[:size] for size in range(0, len(data), 7)],
        "longer": [data + b"\x00", data + data],
        "flipped": [data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] for at in range(0, len(data), 5)],
        "empty": [b"", bytes(100), bytes(len(data))],
        "foreign": [b"OTTLACP2" + data[8:], b"{}" * 100],
    }
    for each in cases[harm]:
        with pytest.raises(DamagedCheckpointError):
            read_checkpoint(each)


def test_a_checkpoint_behind_what_is_committed_may_be_used() -> None:
    assert why() is None
    assert why(committed={INPUT: 50}, changelogs={LOG: Bounds("id", 70, 70)}) is None


def test_a_checkpoint_ahead_of_what_is_committed_is_never_used() -> None:
    assert "ahead of what is committed" in str(why(committed={INPUT: 49}))


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (Bounds("other", 0, 90), "was made anew"),
        (Bounds("id", 0, 69), "ends at offset 69"),
        (Bounds("id", 71, 90), "begins at offset 71"),
    ],
)
def test_a_changelog_that_is_not_the_one_of_the_checkpoint_is_read_whole(bounds: Bounds, words: str) -> None:
    assert words in str(why(changelogs={LOG: bounds}))


def test_other_works_clusters_plans_and_topics_have_other_checkpoints() -> None:
    assert "of cluster" in str(why(identity=replace(IDENTITY, cluster="other")))
    assert "of task" in str(why(identity=replace(IDENTITY, work=WORK._replace(partition=1))))
    assert "have changed" in str(why(identity=replace(IDENTITY, shape="other")))
    assert "other topics" in str(why(committed={INPUT: 60, TopicPartition("in", 1): 3}))
    assert "other topics" in str(why(changelogs={}))


def test_a_checkpoint_that_is_too_old_or_from_the_future_is_not_used() -> None:
    assert why(now_ms=1_000_000 + AGE_MS_MAX) is None
    assert "may have forgotten" in str(why(now_ms=1_000_001 + AGE_MS_MAX))
    assert "clocks differ" in str(why(now_ms=1_000_000 - 61_000))


# -- files


@pytest.fixture
def files(tmp_path: Path) -> CheckpointFiles:
    return CheckpointFiles(str(tmp_path / "state"))


def only(tmp_path: Path) -> Path:
    [found] = (tmp_path / "state").iterdir()
    return found


def test_a_file_is_replaced_whole_and_readable_for_its_user_alone(files: CheckpointFiles, tmp_path: Path) -> None:
    assert files.read(WORK) is None
    files.write(replace(STATE, written_ms=1))
    files.write(STATE)
    assert files.read(WORK) == STATE and only(tmp_path).stat().st_mode & 0o077 == 0
    assert files.read(WORK._replace(partition=1)) is None
    files.remove(WORK)
    assert files.read(WORK) is None


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_disk_that_is_full_leaves_the_earlier_checkpoint_and_no_half_one(
    files: CheckpointFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    files.write(STATE)

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        with pytest.raises(OSError, match="No space"):
            files.write(replace(STATE, written_ms=2))
    assert files.read(WORK) == STATE and len(list((tmp_path / "state").iterdir())) == 1


def test_files_that_are_damaged_links_or_somebody_elses_are_named_and_not_read(
    files: CheckpointFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    files.write(STATE)
    path = only(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(os, "geteuid", lambda: 12345)
        assert files.read(WORK) is None
    data = path.read_bytes()
    path.write_bytes(data[:-30])
    assert files.read(WORK) is None
    path.unlink()
    (tmp_path / "elsewhere").write_bytes(data)
    path.symlink_to(tmp_path / "elsewhere")
    assert files.read(WORK) is None
    path.unlink()
    path.mkdir()
    assert files.read(WORK) is None
    assert len(caplog.records) == 4 and all(str(path) in each.getMessage() for each in caplog.records)


def test_what_killed_writers_have_left_goes_with_the_next_write(files: CheckpointFiles, tmp_path: Path) -> None:
    files.write(STATE)
    left = only(tmp_path).with_name("1_0.checkpoint.77.1.new")
    left.write_bytes(b"half")
    files.write(STATE)
    assert left.exists()
    os.utime(left, (1, 1))
    files.write(STATE)
    assert not left.exists() and files.read(WORK) == STATE
