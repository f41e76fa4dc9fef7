"""`Files` of a query sink: whatever Hadoop's file systems reach (`file:`, `hdfs:`, `s3a:`), through Spark's own JVM."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HadoopFiles"]

REASON_LETTERS_MAX = 400
SYNCS_AT_ONCE = 8


class HadoopFiles:
    """The file system that an address belongs to; `settings` are Hadoop's, set for the whole session.

    Raises ConfigError for an address that no class on Spark's path is for.
    """

    def __init__(self, spark: SparkSession, address: str, settings: Mapping[str, str] | None = None) -> None:
        jvm: Any = spark._jvm
        self._jvm = jvm
        hadoop = spark._jsc.hadoopConfiguration()
        for key, value in (settings or {}).items():
            hadoop.set(key, value)
        try:
            self._system = self._jvm.org.apache.hadoop.fs.Path(address).getFileSystem(hadoop)
        except Exception as error:  # Py4J's kinds, for whatever Java throws
            reason = _reason(error)
            raise ConfigError(
                "path", address, f"Hadoop has no file system for it on Spark's class path ({reason})"
            ) from error

    def sizes(self, folder: str) -> dict[str, int]:
        """See `Files`."""

        def listed() -> dict[str, int]:
            if not self._system.exists(self._path(folder)):
                return {}
            found: dict[str, int] = {}
            files = self._system.listFiles(self._path(folder), True)
            while files.hasNext():
                status = files.next()
                found[str(status.getPath().toString())] = int(status.getLen())
            return found

        return dict(self._told(f"list {folder}", listed))

    def names(self, folder: str) -> list[str]:
        """See `Files`."""

        def listed() -> list[str]:
            if not self._system.exists(self._path(folder)):
                return []
            return sorted(str(each.getPath().getName()) for each in self._system.listStatus(self._path(folder)))

        return list(self._told(f"list {folder}", listed))

    def size(self, file: str) -> int | None:
        """See `Files`."""

        def looked() -> int | None:
            path = self._path(file)
            return int(self._system.getFileStatus(path).getLen()) if self._system.exists(path) else None

        found: int | None = self._told(f"look at {file}", looked)
        return found

    def read(self, file: str) -> str:
        """See `Files`."""

        def text() -> str:
            stream = self._system.open(self._path(file))
            try:
                return str(self._jvm.org.apache.commons.io.IOUtils.toString(stream, "UTF-8"))
            finally:
                stream.close()

        return str(self._told(f"read {file}", text))

    def create(self, file: str, text: str) -> None:
        """See `Files`."""

        def write() -> None:
            stream = self._system.create(self._path(file), False)
            try:
                stream.write(text.encode())
                if stream.hasCapability("hsync"):
                    stream.hsync()
            finally:
                stream.close()

        self._told(f"write {file}", write)

    def rename(self, source: str, target: str) -> None:
        """See `Files`."""

        def move() -> None:
            path = self._path(target)
            self._system.mkdirs(path.getParent())
            if not self._system.rename(self._path(source), path):
                raise OSError(f"{source} cannot be renamed to {target}: one is not there, or the other is")

        self._told(f"rename {source}", move)

    def sync(self, files: Sequence[str]) -> None:
        """See `Files`."""
        if str(self._system.getUri().getScheme()) == "file" and files:
            sync_local([Path(str(self._path(each).toUri().getPath())) for each in files])

    def delete(self, path: str) -> None:
        """See `Files`."""
        self._told(f"delete {path}", lambda: self._system.delete(self._path(path), True))

    def _path(self, address: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(address)

    def _told(self, what: str, work: Callable[[], Any]) -> Any:
        """Do something in the JVM; what it throws becomes an OSError with its reason."""
        try:
            return work()
        except OSError:
            raise
        except Exception as error:  # Py4J's kinds, for whatever Java throws
            reason = _reason(error)
            kind = FileExistsError if "AlreadyExists" in reason else OSError
            raise kind(f"cannot {what}: {reason}") from error


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


def _reason(error: Exception) -> str:
    thrown = getattr(error, "java_exception", None)
    text = str(error) if thrown is None else str(thrown.toString())
    return text.partition("\n")[0][:REASON_LETTERS_MAX]
