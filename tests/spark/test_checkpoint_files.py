"""The files of checkpoints in a folder of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ottla.spark.checkpoint_files import LocalFiles


def test_two_who_write_a_file_at_once_both_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, path = LocalFiles(), f"{tmp_path}/plan/plan.json"
    written = Path.write_text

    def while_another_does(self: Path, text: str, *arguments: Any) -> int:
        count = written(self, text, *arguments)
        monkeypatch.setattr(Path, "write_text", written)
        files.write(path, "another's")
        return count

    monkeypatch.setattr(Path, "write_text", while_another_does)
    files.write(path, "mine")
    assert files.read(path) == "mine"
    assert files.names(f"{tmp_path}/plan") == ["plan.json"]


def test_a_write_that_fails_leaves_what_was_there_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files, path = LocalFiles(), f"{tmp_path}/plan.json"
    files.write(path, "whole")

    def full(path: Path, target: Path) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="No space"):
        files.write(path, "torn")
    assert files.read(path) == "whole"
    assert files.names(str(tmp_path)) == ["plan.json"]
