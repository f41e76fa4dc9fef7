"""The file system that holds checkpoints: a folder of this machine, or what Spark reaches by a URI."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ottla.config import write_whole
from ottla.spark.private_api.hadoop import HadoopFileSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Files", "HadoopFiles", "LocalFiles"]


class Files(Protocol):
    """What has to be known and done about files; paths are texts, absolute or URIs. Errors are OSError."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none where there is no such folder."""

    def read(self, path: str) -> str | None:
        """Return a file's text; None where there is no such file."""

    def write(self, path: str, text: str) -> None:
        """Make or replace a file, which is whole at every time, and its folders."""

    def remove(self, path: str) -> bool:
        """Remove a file or a folder with all that is in it; returns whether it was there."""


class LocalFiles:
    """Folders of this machine."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        there = Path(folder)
        return [each.name for each in there.iterdir()] if there.is_dir() else []

    def read(self, path: str) -> str | None:
        """Return a file's text."""
        there = Path(path)
        return there.read_text() if there.exists() else None

    def write(self, path: str, text: str) -> None:
        """Make or replace a file by a rename; of two who do so at once, each has a file of its own until then."""
        there = Path(path)
        there.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(there, [text.encode()], mode=0o666)

    def remove(self, path: str) -> bool:
        """Remove a folder with all that is in it."""
        there = Path(path).exists()
        if there:
            shutil.rmtree(path)
        return there


class HadoopFiles:
    """Any file system that Spark keeps checkpoints in, by an address in it; needs a classic session."""

    def __init__(self, spark: SparkSession, address: str) -> None:
        self._system = HadoopFileSystem(spark, address)

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        return self._system.names(folder)

    def read(self, path: str) -> str | None:
        """Return a file's text; of the new one where it was to replace it and a crash came in between."""
        for each in (path, f"{path}.new"):
            if self._system.size(each) is not None:
                return self._system.read(each).decode()
        return None

    def write(self, path: str, text: str) -> None:
        """Make or replace a file: not every file system can rename over another, so the old one goes just before."""
        new = f"{path}.new"
        if self._system.size(path) is not None:
            self._system.delete(new)
        elif self._system.size(new) is not None:  # left by a crash; the only one there is
            self._system.rename(new, path)
        self._system.create(new, text.encode(), overwrite=True)
        self._system.delete(path)
        if not self._system.rename(new, path):
            raise OSError(f"{new} cannot be renamed to {path}")

    def remove(self, path: str) -> bool:
        """Remove a file or a folder with all that is in it."""
        return self._system.delete(path)
