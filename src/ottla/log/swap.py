"""Putting a cleaned segment in the place of those that it was made from, so that a crash leaves the one or the others.

::

    .cleaned  →  .swap     from here on a start completes it, before it undoes it
    old       →  .deleted  for those who still read them
    .swap     →  the plain name, the data first

Renames of one folder reach the device in their order, so no fsync stands between them, and all of it may be done on the
loop: a few system calls a segment.
"""

from __future__ import annotations

from collections.abc import Sequence

from ottla.log.disk import Disk, Entry, join
from ottla.log.names import CLEANED, INDEX, LOG, SWAP, TIME_INDEX, TXN_INDEX, file_name
from ottla.log.segment import Segment
from ottla.log.types import CleanedGroup

__all__ = ["cleaned_files", "swap_in"]


def cleaned_files(folder: str, group: CleanedGroup) -> list[str]:
    """Return the plain paths of a cleaned segment's files, the data first."""
    suffixes = [LOG, INDEX, TIME_INDEX, *([TXN_INDEX] if group.transaction_index_bytes else [])]
    return [join(folder, file_name(group.bases[0], suffix)) for suffix in suffixes]


def swap_in(
    disk: Disk, folder: str, old: Sequence[Segment], group: CleanedGroup, now_ms: int
) -> tuple[Segment, list[str]]:
    """Do it; return the new segment, and the old ones' files, which are to be unlinked when nobody reads them."""
    paths = cleaned_files(folder, group)
    for path in paths:
        disk.rename(path + CLEANED, path + SWAP)
    gone: list[str] = []
    for segment in old:
        gone += segment.set_aside(f".{now_ms}")
    for path in paths:
        disk.rename(path + SWAP, path)
    modified_ms = old[-1].modified_ms
    sizes = (group.size, group.offset_index_bytes, group.time_index_bytes, group.transaction_index_bytes)
    entries: dict[str, Entry] = {}
    for path, size in zip(paths, sizes, strict=False):
        name = path.rpartition("/")[2]
        entries[name] = Entry(name, size, False, modified_ms)
    return Segment(disk, folder, group.bases[0], entries, now_ms), gone
