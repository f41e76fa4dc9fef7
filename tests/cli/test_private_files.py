"""Commands that keep data and secrets make files that are their user's alone; a folder that others see is named."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ottla.cli.local.data_folders import data_lines


def formatted(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Format a folder under the widest umask."""
    command = [sys.executable, "-m", "ottla.cli.main", "storage", "format", "--standalone", "-t", "A" * 22]
    command += ["-c", os.devnull, "--override", f"log.dirs={folder}"]
    found = {**os.environ, **environment}
    return subprocess.run(command, env=found, umask=0, text=True, capture_output=True, timeout=100, check=False)


@pytest.mark.parametrize(("umask", "folder", "file"), [("", 0o700, 0o600), ("027", 0o750, 0o640)])
def test_what_a_command_keeps_is_its_users_alone_or_as_the_environment_says(
    tmp_path: Path, umask: str, folder: int, file: int
) -> None:
    done = formatted(tmp_path / "above" / "data", OTTLA_UMASK=umask)
    assert done.returncode == 0, done.stderr
    made = list(tmp_path.rglob("*"))
    assert made
    modes = {(each.is_dir(), stat.S_IMODE(each.stat().st_mode)) for each in made}
    assert modes == {(True, folder), (False, file)}


def test_a_umask_that_is_none_is_refused(tmp_path: Path) -> None:
    done = formatted(tmp_path / "data", OTTLA_UMASK="rwx")
    assert (done.returncode, "three octal digits" in done.stderr) == (1, True)


def test_a_data_folder_that_every_user_may_list_is_named_at_the_start(tmp_path: Path) -> None:
    for name, mode in (("open", 0o755), ("closed", 0o700)):
        (tmp_path / name).mkdir()
        (tmp_path / name).chmod(mode)
    _, lines = data_lines([str(tmp_path / "open"), str(tmp_path / "closed"), str(tmp_path / "none")])
    folder = tmp_path / "open"
    assert [each for each in lines if "chmod" in each] == [
        f"every user of this machine may list {folder}: chmod -R go-rwx {folder}"
    ]
