"""The same below the seam: `OsDisk` on a real file system that fills up, bytes and names, in processes that are killed.

A tmpfs of some kilobytes is mounted in a mount namespace of its own, which takes root; elsewhere these are skipped.
Before another process looks what is there, there is room.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


def may_mount(folder: Path) -> bool:
    """True where a tmpfs can be mounted in a namespace of one's own."""
    command = ["unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", str(folder)]
    try:
        return subprocess.run(command, capture_output=True, timeout=20).returncode == 0
    except OSError:
        return False


CASES = {
    "produce, no bytes": ("size=40k", "produce", False),
    "produce, no bytes, killed": ("size=40k", "produce", True),
    "produce, no names": ("size=4m,nr_inodes=24", "produce", False),
    "produce, no names, killed": ("size=4m,nr_inodes=24", "produce", True),
    "replicate, no bytes": ("size=40k", "replicate", False),
    "replicate, no bytes, killed": ("size=40k", "replicate", True),
    "replicate, no names": ("size=4m,nr_inodes=24", "replicate", False),
    "replicate, no names, killed": ("size=4m,nr_inodes=24", "replicate", True),
    "abort, no bytes": ("size=40k", "abort", False),
    "abort, no names, killed": ("size=4m,nr_inodes=24", "abort", True),
    "delete gives space back": ("size=400k", "delete", False),
    "retention gives space back": ("size=400k", "retain", False),
}


@pytest.mark.parametrize("name", CASES)
def test_a_full_file_system_refuses_and_breaks_nothing(tmp_path: Path, name: str) -> None:
    if not may_mount(tmp_path):
        pytest.skip("no file system may be mounted here: needs root and unshare")
    options, act, killed = CASES[name]
    script = (
        f'mount -t tmpfs -o {options} tmpfs "{tmp_path}" && '
        f'"{sys.executable}" -m tests.faults.small_disk {act} "{tmp_path}/d" {"die" if killed else "stay"}; code=$?; '
        f'[ $code = 137 ] && code=0; [ $code = 0 ] && mount -o remount,size=8m,nr_inodes=2000 "{tmp_path}" && '
        f'"{sys.executable}" -m tests.faults.small_disk look "{tmp_path}/d" stay'
    )
    ended = subprocess.run(["unshare", "-m", "bash", "-c", script], capture_output=True, text=True, timeout=100)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert "all is there" in ended.stdout, ended.stdout + ended.stderr
