"""Names of files: where a topic partition's records lie, and what a name says when it is read back.

`topics/orders/partition=0/orders+0+0000000042.json`: the directory, the topic, the partition's path, and in the name the
topic, its partition and the offset of the first record. The same records always have the same name. Where a transformation
gave records another topic, the one that they were read from stands before the partition, whose number and offsets are its
own (`topics/all/partition=0/all+orders+0+0000000042.json`): two topics that become one do not meet in one name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["FileName", "Names", "Part"]


class Part:
    """The parts of a record that have files of their own; the value's has no word in its name."""

    VALUE = ""
    KEYS = ".keys"
    HEADERS = ".headers"


@dataclass(frozen=True, slots=True)
class FileName:
    """What the name of a file says."""

    topic: str
    partition: int
    offset: int
    """Of the first record."""

    path: str
    """The directories between the topic's and the file."""

    part: str
    extension: str
    origin: str = ""
    """The topic that the records were read from, where it is another."""

    @property
    def siblings(self) -> tuple[str, str, int, int, str]:
        """What the files of values, keys and headers of the same records have in common."""
        return self.topic, self.origin, self.partition, self.offset, self.path


@dataclass(frozen=True, slots=True)
class Names:
    """How names are made, from `topics.dir`, `directory.delim`, `file.delim` and `filename.offset.zero.pad.width`."""

    topics_dir: str = "topics"
    directory_delimiter: str = "/"
    file_delimiter: str = "+"
    pad_width: int = 10

    def key(self, topic: str, partition: int, offset: int, *, path: str, ending: str, origin: str = "") -> str:
        """Return a file's name; `ending` is its part and extension, such as `.keys.json`."""
        words = (topic, origin if origin != topic else "", str(partition), str(offset).zfill(self.pad_width))
        stem = self.file_delimiter.join(each for each in words if each)
        return self.directory_delimiter.join(each for each in (self.topics_dir, topic, path, stem + ending) if each)

    def parse(self, key: str) -> FileName | None:
        """Return what a name says, None where it was not made by these rules."""
        delimiter = self.directory_delimiter
        prefix = self.topics_dir + delimiter if self.topics_dir else ""
        if not key.startswith(prefix):
            return None
        *directories, last = key[len(prefix) :].split(delimiter)
        if not directories:
            return None
        topic = directories[0]
        between = re.escape(self.file_delimiter)
        found = re.fullmatch(
            rf"{re.escape(topic)}{between}(?:(.+){between})?([0-9]+){between}([0-9]+)(\..*)?", last, re.DOTALL
        )
        if found is None:
            return None
        origin, partition, offset, ending = found[1] or "", found[2], found[3], found[4] or "."
        part = next((each for each in (Part.KEYS, Part.HEADERS) if ending.startswith(each + ".")), Part.VALUE)
        path = delimiter.join(directories[1:])
        return FileName(topic, int(partition), int(offset), path, part, ending.removeprefix(part), origin)
