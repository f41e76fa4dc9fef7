"""The checkpoint of a streaming query: the folder in which Spark notes what each micro-batch is made of."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Protocol

__all__ = ["BY_FILE_CONTEXT", "BY_FILE_SYSTEM", "FILES_BY", "CheckpointFiles", "QueryCheckpoint"]

_PACKAGE = "org.apache.spark.sql.execution.streaming.checkpointing"
FILES_BY = "spark.sql.streaming.checkpointFileManagerClass"
"""Spark's own setting for who writes checkpoints' files; it is not in Spark's documentation."""
BY_FILE_CONTEXT = f"{_PACKAGE}.FileContextBasedCheckpointFileManager"
"""What Spark takes by default. On a local file system it starts a process for each file (see `local_files`)."""
BY_FILE_SYSTEM = f"{_PACKAGE}.FileSystemBasedCheckpointFileManager"
"""Writes by Hadoop's file systems, which `local_files` makes quick. Where renaming over a file is refused, as in HDFS, it
leaves the file that was there."""


class CheckpointFiles(Protocol):
    """What has to be known of files; paths are texts."""

    def names(self, folder: str) -> list[str]:
        """Return the names in a folder; none where there is no such folder."""

    def read(self, path: str) -> str | None:
        """Return a file's text; None where there is no such file."""


@dataclass(frozen=True, slots=True)
class QueryCheckpoint:
    """What a checkpoint says of its query, which need not run.

    By the names and the form of Spark's own files: publicly a query tells its progress while it runs, and its offsets after
    the batch, when it is too late to know how far an unfinished one goes.
    """

    location: str
    files: CheckpointFiles

    def has_committed(self) -> bool:
        """Whether a batch was finished."""
        return self.last_committed() is not None

    def has_begun(self) -> bool:
        """Whether a batch was planned, finished or not."""
        return self.last_planned() is not None

    def last_committed(self) -> int | None:
        """Return the last batch that was finished; None where none was."""
        return self._last("commits")

    def last_planned(self) -> int | None:
        """Return the last batch that was planned, finished or not; None where none was."""
        return self._last("offsets")

    def query_id(self) -> str | None:
        """Return the id of the query, the same in all its starts; None where there is no checkpoint."""
        text = self.files.read(f"{self.location}/metadata")
        return None if text is None else str(json.loads(text)["id"])

    def offsets_of_last_source(self, batch: int) -> str:
        """Return where a planned batch ends in the last source of its query: the text that the source gave Spark.

        Raises FileNotFoundError where no such batch is planned.
        """
        text = self.files.read(f"{self.location}/offsets/{batch}")
        if text is None:
            raise FileNotFoundError(f"{self.location} has no batch {batch}")
        return text.splitlines()[-1]

    def offsets_of_sources(self, batch: int) -> list[str]:
        """Return where a planned batch ends in each source that has something to say; nothing where no such batch is known.

        The file has a line for its form, one for the batch itself, and one for each source, `-` where it has no offset.
        """
        text = self.files.read(f"{self.location}/offsets/{batch}")
        return [] if text is None else [each for each in text.splitlines()[2:] if each.startswith("{")]

    def _last(self, kind: str) -> int | None:
        names = self.files.names(f"{self.location}/{kind}")
        return max((int(each) for each in names if each.isdecimal()), default=None)
