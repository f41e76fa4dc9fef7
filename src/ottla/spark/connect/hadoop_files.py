"""`Files` of a query sink: whatever Hadoop's file systems reach (`file:`, `hdfs:`, `s3a:`), through Spark's own JVM."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base import ConfigError
from ottla.spark.private_api.hadoop import HadoopFileSystem

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HadoopFiles", "sync_local"]

SYNCS_AT_ONCE = 8


class HadoopFiles:
    """The file system that an address belongs to; `settings` are Hadoop's, set for the whole session.

    Raises ConfigError for an address that no class on Spark's path is for.
    """

    def __init__(self, spark: SparkSession, address: str, settings: Mapping[str, str] | None = None) -> None:
        try:
            self._system = HadoopFileSystem(spark, address, settings)
        except OSError as error:
            words = f"Hadoop has no file system for it on Spark's class path ({error})"
            raise ConfigError("path", address, words) from error

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Files`."""
        return self._system.sizes(folder)

    def names(self, folder: str) -> list[str]:
        """See `Files`."""
        return self._system.names(folder)

    def size(self, file: str) -> int | None:
        """See `Files`."""
        return self._system.size(file)

    def read(self, file: str) -> str:
        """See `Files`."""
        return self._system.read(file).decode(errors="replace")

    def create(self, file: str, text: str) -> None:
        """See `Files`. Of two at once on this machine's disks one fails; Hadoop looks first and creates then."""
        local = self._system.local_path(file)
        if local is None:
            self._system.create(file, text.encode())
            return
        local.parent.mkdir(parents=True, exist_ok=True)
        with local.open("x", encoding="utf-8") as out:
            out.write(text)

    def rename(self, source: str, target: str) -> None:
        """See `Files`."""
        self._system.make_folder_of(target)
        if not self._system.rename(source, target):
            raise OSError(f"{source} cannot be renamed to {target}: one is not there, or the other is")

    def sync(self, files: Sequence[str]) -> None:
        """See `Files`."""
        local = [path for each in files if (path := self._system.local_path(each)) is not None]
        if local:
            sync_local(local)

    def delete(self, path: str) -> None:
        """See `Files`."""
        self._system.delete(path)


def sync_local(files: Sequence[Path]) -> None:
    """Bring files, Hadoop's checksums beside them, and all folders above them to this machine's disk. Raises OSError."""
    sums = (each.with_name(f".{each.name}.crc") for each in files)
    folders = sorted({folder for each in files for folder in each.parents}, reverse=True)
    with ThreadPoolExecutor(SYNCS_AT_ONCE) as pool:
        for _ in pool.map(_fsync, (*files, *(each for each in sums if each.exists()))):
            pass
    for folder in folders:
        if os.access(folder, os.R_OK):  # one that cannot be read was made by somebody else, before
            _fsync(folder)


def _fsync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
