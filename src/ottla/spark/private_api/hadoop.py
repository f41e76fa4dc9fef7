"""Hadoop's file systems (`file:`, `hdfs:`, `s3a:`, …), through Spark's own JVM."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.spark.private_api.gateway import java_reason

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["HadoopFileSystem"]

REASON_LETTERS_MAX = 400
T = TypeVar("T")


class HadoopFileSystem:
    """The file system that an address belongs to; `settings` are Hadoop's, set for the whole session.

    By `_jvm`, `_jsc` and `_jsparkSession`: Spark's sources read and write tables, and not a file; Python has no client for
    all that Hadoop reaches. Every method raises OSError with Java's reason; so does this for an address that no class on
    Spark's path is for. Needs a classic session.
    """

    def __init__(self, spark: SparkSession, address: str, settings: Mapping[str, str] | None = None) -> None:
        context: Any = spark.sparkContext
        self._jvm: Any = context._jvm
        for key, value in (settings or {}).items():
            context._jsc.hadoopConfiguration().set(key, value)
        configuration = spark._jsparkSession.sessionState().newHadoopConf()
        self._system: Any = _told(f"reach {address}", lambda: self._path(address).getFileSystem(configuration))

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder, sorted; none where there is no such folder."""

        def listed() -> list[str]:
            if not self._system.exists(self._path(folder)):
                return []
            return sorted(str(each.getPath().getName()) for each in self._system.listStatus(self._path(folder)))

        return _told(f"list {folder}", listed)

    def sizes(self, folder: str) -> dict[str, int]:
        """Return the files below a folder, by full address, with their sizes in bytes; none where there is no folder."""

        def listed() -> dict[str, int]:
            if not self._system.exists(self._path(folder)):
                return {}
            found: dict[str, int] = {}
            files = self._system.listFiles(self._path(folder), True)
            while files.hasNext():
                status = files.next()
                found[str(status.getPath().toString())] = int(status.getLen())
            return found

        return _told(f"list {folder}", listed)

    def size(self, file: str) -> int | None:
        """Return a file's size in bytes; None where there is no such file."""

        def looked() -> int | None:
            path = self._path(file)
            return int(self._system.getFileStatus(path).getLen()) if self._system.exists(path) else None

        return _told(f"look at {file}", looked)

    def read(self, file: str) -> bytes:
        """Return what is in a file."""

        def content() -> bytes:
            stream = self._system.open(self._path(file))
            try:
                return bytes(stream.readAllBytes())
            finally:
                stream.close()

        return _told(f"read {file}", content)

    def create(self, file: str, content: bytes, *, overwrite: bool = False) -> None:
        """Make a file and its folders, durably where the file system can; FileExistsError where it is there."""

        def write() -> None:
            stream = self._system.create(self._path(file), overwrite)
            try:
                stream.write(bytearray(content))
                if stream.hasCapability("hsync"):
                    stream.hsync()
            finally:
                stream.close()

        _told(f"write {file}", write)

    def make_folder_of(self, file: str) -> None:
        """Make the folders that a file is to be in."""
        _told(f"make the folder of {file}", lambda: self._system.mkdirs(self._path(file).getParent()))

    def rename(self, source: str, target: str) -> bool:
        """Rename a file or a folder; returns whether it could be: not every file system can over another."""
        return bool(_told(f"rename {source}", lambda: self._system.rename(self._path(source), self._path(target))))

    def delete(self, path: str) -> bool:
        """Remove a file or a folder with all that is in it; returns whether it was there."""
        return bool(_told(f"delete {path}", lambda: self._system.delete(self._path(path), True)))

    def local_path(self, file: str) -> Path | None:
        """Return where a file is on this machine's disks; None where the file system is another."""
        if str(self._system.getUri().getScheme()) != "file":
            return None
        return Path(str(self._path(file).toUri().getPath()))

    def _path(self, address: str) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(address)


def _told(what: str, work: Callable[[], T]) -> T:
    """Do something in the JVM; what it throws becomes an OSError with its reason."""
    try:
        return work()
    except Exception as error:  # Py4J's kinds, for whatever Java throws
        reason = java_reason(error)[:REASON_LETTERS_MAX]
        kind = FileExistsError if "AlreadyExists" in reason else OSError
        raise kind(f"cannot {what}: {reason}") from error
