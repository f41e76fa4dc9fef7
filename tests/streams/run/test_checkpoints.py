"""What a checkpoint's folder says: whether a query has begun, has finished a batch, and for which plan and cluster."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base import ConfigError
from ottla.spark import Checkpoint
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
