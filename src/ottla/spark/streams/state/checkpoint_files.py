"""The file system that holds an application's checkpoints: a folder of this machine, or what Spark reaches by a URI."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Files", "HadoopFiles", "LocalFiles"]


class Files(Protocol):
    """What has to be known and done about files; paths are texts, absolute or URIs. Errors are OSError, or the JVM's."""

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
        """Make or replace a file by a rename."""
        there = Path(path)
        there.parent.mkdir(parents=True, exist_ok=True)
        new = there.with_name(f"{there.name}.new")
        new.write_text(text)
        new.replace(there)

    def remove(self, path: str) -> bool:
        """Remove a folder with all that is in it."""
        there = Path(path).exists()
        if there:
            shutil.rmtree(path)
        return there


class HadoopFiles:
    """Any file system that Spark keeps checkpoints in; needs a classic session."""

    def __init__(self, spark: SparkSession) -> None:
        assert hasattr(spark, "_jsparkSession"), "Spark Connect shows no files"
        self._jvm: Any = spark.sparkContext._jvm
        self._settings = spark._jsparkSession.sessionState().newHadoopConf()

    def _at(self, path: str) -> tuple[Any, Any]:
        place = self._jvm.org.apache.hadoop.fs.Path(path)
        return place.getFileSystem(self._settings), place

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder."""
        system, place = self._at(folder)
        return [str(each.getPath().getName()) for each in system.listStatus(place)] if system.exists(place) else []

    def read(self, path: str) -> str | None:
        """Return a file's text; of the new one where it was to replace it and a crash came in between."""
        for each in (path, f"{path}.new"):
            system, place = self._at(each)
            if system.exists(place):
                stream = system.open(place)
                try:
                    return bytes(stream.readAllBytes()).decode()
                finally:
                    stream.close()
        return None

    def write(self, path: str, text: str) -> None:
        """Make or replace a file: not every file system can rename over another, so the old one goes just before."""
        system, place = self._at(path)
        _, new = self._at(f"{path}.new")
        if system.exists(place):
            system.delete(new, False)
        elif system.exists(new):  # left by a crash; the only one there is
            system.rename(new, place)
        stream = system.create(new, True)
        stream.write(bytearray(text.encode()))
        stream.close()
        system.delete(place, False)
        if not system.rename(new, place):
            raise OSError(f"{path}.new cannot be renamed to {path}")

    def remove(self, path: str) -> bool:
        """Remove a file or a folder with all that is in it."""
        system, place = self._at(path)
        return bool(system.delete(place, True))
