"""A small file that is replaced is on the device before it has its name, and its name before the writer goes on."""

from __future__ import annotations

import ast
import os
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ottla.cli.contexts import ContextFile
from ottla.config import write_whole
from ottla.connect.offset_file import OffsetFile

SOURCE = Path(__file__).parents[2] / "src" / "ottla"
RENAMES = {
    "cli/local/node_process.py": "a process' number, which means nothing after the machine has stopped",
    "config/whole_files.py": "the helper itself",
    "log/os_disk.py": "the disk's own rename; `replace_file` syncs around it",
}
"""Who else renames a file of the operating system over another one, and why that is well."""


def calls_of(monkeypatch: pytest.MonkeyPatch, act: Callable[[], object]) -> list[str]:
    """Return in which order files and folders were synced and renamed."""
    calls: list[str] = []
    fsync, rename = os.fsync, os.replace

    def noted_fsync(descriptor: int) -> None:
        kind = "folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        calls.append(f"fsync {kind}")
        fsync(descriptor)

    def noted_rename(*args: Any, **options: Any) -> None:
        calls.append("rename")
        rename(*args, **options)

    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "replace", noted_rename)
    act()
    return calls


@pytest.mark.parametrize("writer", ["whole", "context", "offsets"])
def test_a_replaced_file_is_durable_with_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writer: str) -> None:
    path = tmp_path / "kept"
    acts: dict[str, Callable[[], object]] = {
        "whole": lambda: write_whole(path, [b"a", b"b"]),
        "context": ContextFile(path).write,
        "offsets": lambda: OffsetFile(path).write([(b'["c",{"a":1}]', b'{"n":1}')]),
    }
    assert calls_of(monkeypatch, acts[writer]) == ["fsync file", "rename", "fsync folder"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["kept"]


def test_what_cannot_be_written_leaves_the_file_as_it_was_and_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    write_whole(path, [b"before"])

    def broken() -> Any:
        yield b"half"
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        write_whole(path, broken())
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["kept"]


def test_nobody_renames_a_file_over_another_one_without_syncing_both() -> None:
    wrong = [
        f"{path.relative_to(SOURCE)}:{node.lineno}"
        for path in sorted(SOURCE.rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and ast.unparse(node.func) in {"os.replace", "os.rename"}
        and str(path.relative_to(SOURCE)) not in RENAMES
    ]
    assert not wrong, f"{wrong}: ottla.config.write_whole, or ottla.log.replace_file"
