"""Where a server keeps its data, said at its start: without a configuration elsewhere than with that of `$KAFKA_HOME`."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

__all__ = ["data_lines"]

FORMATTED = "meta.properties"
"""The file by which a folder is known that has been a server's."""


def data_lines(log_dirs: Sequence[str]) -> tuple[str, list[str]]:
    """Return the line that names the server's folders, and one for each that others see, or that was meant instead."""
    own = [Path(folder).absolute() for folder in log_dirs]
    others = [(Path("ottla-data").absolute(), "where `ottla server start` keeps it without a configuration")]
    if home := os.environ.get("HOME"):
        others.append((Path(home, ".local/share/ottla/data"), "where $KAFKA_HOME/config/server.properties keeps it"))
    seen = [each for each in own if each.is_dir() and each.stat().st_mode & stat.S_IROTH]
    return (
        f"data {', '.join(map(str, own))}",
        [
            f"there is data in {folder} too, {whose}; this server does not open it"
            for folder, whose in others
            if folder not in own and (folder / FORMATTED).exists()
        ]
        + [f"every user of this machine may list {folder}: chmod -R go-rwx {folder}" for folder in seen],
    )
