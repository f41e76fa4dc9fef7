"""What a checkpoint's folder says: whether a query has begun, has finished a batch, and for which plan and cluster."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import pytest

from ottla.base import ConfigError, Offset, TopicPartition
from ottla.spark import Checkpoint
from ottla.spark.checkpoint_files import LocalFiles
from ottla.spark.source.positions import Planned
from ottla.spark.streams.preparation import Removals
from ottla.streams import StreamsSettings


def checkpoint(folder: object) -> Checkpoint:
    settings = StreamsSettings.of(application_id="app", bootstrap_servers="x:1", state_dir=str(folder))
    return Checkpoint.of(settings, "cluster")


def test_a_batch_that_was_cut_short_is_begun_and_not_finished(tmp_path: Path) -> None:
    found = checkpoint(tmp_path)
    assert found.root == f"{tmp_path}/app" and not found.exists
    assert not found.has_begun("stage") and not found.has_committed("stage")
    for folder in ("offsets", "commits"):
        (tmp_path / "app" / "stage" / folder).mkdir(parents=True)
    (tmp_path / "app" / "stage" / "offsets" / "0").touch()
    (tmp_path / "app" / "stage" / "commits" / ".1.crc").touch()
    assert found.has_begun("stage") and not found.has_committed("stage")
    (tmp_path / "app" / "stage" / "commits" / "0").touch()
    assert found.has_committed("stage")


def test_the_plan_is_noted_beside_it_and_goes_with_it(tmp_path: Path) -> None:
    found = checkpoint(tmp_path)
    assert found.plan() is None
    found.note({"format": 1})
    found.note({"format": 2})
    assert found.plan() == {"format": 2} and found.remove() and not found.remove() and found.plan() is None


def test_without_a_state_dir_it_is_the_users_and_the_clusters(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    settings = StreamsSettings.of(application_id="app", bootstrap_servers="x:1")
    assert Checkpoint.of(settings, "abc").root == f"{tmp_path}/ottla/streams/abc/app"


def test_one_in_another_file_system_is_left_to_its_tools(tmp_path: Path) -> None:
    found = checkpoint("s3a://bucket/states/")
    assert found.root == "s3a://bucket/states/app" and not found.is_local and found.plan() is None
    with pytest.raises(ConfigError, match="tools of that file system"):
        found.remove()
    assert checkpoint(f"file://{tmp_path}").is_local


class Killed(BaseException):
    """The end of a process."""


class Mortal(LocalFiles):
    """Files of a process that is killed behind so many changes; folders are removed file by file."""

    def __init__(self, changes: int, *, backwards: bool) -> None:
        self.left, self.backwards = changes, backwards

    def change(self) -> None:
        if not self.left:
            raise Killed
        self.left -= 1

    def write(self, path: str, text: str) -> None:
        self.change()
        super().write(path, text)

    def remove(self, path: str) -> bool:
        there = sorted(Path(path).rglob("*"), key=lambda each: (-len(each.parts), str(each)))
        for each in reversed(there) if self.backwards else there:
            if each.is_file():
                self.change()
                each.unlink()
        self.change()
        return super().remove(path)


@pytest.mark.parametrize("backwards", [False, True])
def test_a_removal_that_was_cut_short_anywhere_is_finished_by_the_next_start(tmp_path: Path, backwards: bool) -> None:
    goes_on = Planned({TopicPartition("in", 0): Offset(7)}, {"in": "a1"})
    outcomes = set()
    for changes in range(10):
        whole = checkpoint(tmp_path / str(changes))
        stage = Path(whole.of_stage("stage"))
        for name in ("metadata", "offsets/0", "offsets/1", "commits/0"):
            (stage / name).parent.mkdir(parents=True, exist_ok=True)
            (stage / name).write_text(json.dumps({"id": "query"}))
        whole.note({"plan": 1})
        mortal = Checkpoint(whole.root, Mortal(changes, backwards=backwards))
        with suppress(Killed):
            Removals.of(mortal, whole.plan() or {}).remove("stage", goes_on)
        next_start = Removals.of(whole, whole.plan() or {})
        next_start.finish()
        assert next_start.before("stage", {"in": "b2"}) == {}  # made again since
        if next_start.noted:
            assert not stage.exists() and next_start.before("stage", {"in": "a1"}) == goes_on.offsets
        else:
            assert len([each for each in stage.rglob("*") if each.is_file()]) == 4
        outcomes.add(bool(next_start.noted))
    assert outcomes == {False, True}


def test_a_checkpoint_that_followed_one_that_was_removed_stays(tmp_path: Path) -> None:
    found = checkpoint(tmp_path)
    stage = Path(found.of_stage("stage"))
    (stage / "offsets").mkdir(parents=True)
    (stage / "metadata").write_text(json.dumps({"id": "old"}))
    removals = Removals.of(found, {})
    removals.remove("stage", Planned({}))
    assert removals.left()["removals"].keys() == {"stage"}
    (stage / "offsets").mkdir(parents=True)
    (stage / "metadata").write_text(json.dumps({"id": "new"}))
    removals.finish()
    assert (stage / "metadata").exists() and removals.left()["removals"].keys() == {"stage"}
    (stage / "offsets" / "0").touch()
    assert removals.left() == {"removals": {}}
