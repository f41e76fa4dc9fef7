"""A segment's `.txnindex`: the aborted transactions that ended in it (KIP-98).

::

    offset bytes field
         0     2 version                0
         2     8 producer id
        10     8 first offset           of the transaction
        18     8 last offset            of its end marker
        26     8 last stable offset     when the marker was appended

The file exists only where a transaction was aborted.
"""

from __future__ import annotations

from collections.abc import Iterable
from struct import Struct

from ottla.base import CorruptionError, Offset, ProducerId
from ottla.log.disk import Disk, replace_file
from ottla.log.types import AbortedTransaction

__all__ = ["TRANSACTION_ENTRY", "TransactionIndex", "encode_transactions", "read_transactions"]

TRANSACTION_ENTRY = Struct(">hqqqq")


class TransactionIndex:
    """The aborted transactions of one segment, kept in memory once read: there are few."""

    __slots__ = ("_aborted", "_disk", "_size", "path")

    def __init__(self, disk: Disk, path: str, size: int) -> None:
        self.path = path
        self._disk = disk
        self._size = size
        self._aborted: list[AbortedTransaction] | None = None if size else []

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """Return the entries, in the order in which the transactions ended."""
        if self._aborted is None:
            self._aborted = read_transactions(self._disk.read(self.path) or b"", self.path)
        return self._aborted

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry and hand it to the operating system."""
        entries = self.aborted
        file = self._disk.open(self.path, create=True)
        file.pwrite(len(entries) * TRANSACTION_ENTRY.size, TRANSACTION_ENTRY.pack(0, *entry))
        file.close()
        entries.append(entry)
        self._size += TRANSACTION_ENTRY.size

    def cut(self, offset: int) -> None:
        """Remove the transactions whose marker lies at `offset` or after it."""
        if self._size:
            self.replace([each for each in self.aborted if each.last_offset < offset])

    def replace(self, entries: list[AbortedTransaction]) -> None:
        """Make these the whole content; no file where there are none."""
        if entries:
            replace_file(self._disk, self.path, encode_transactions(entries), durable=False)
        elif self._size:
            self._disk.unlink(self.path)
        self._aborted = list(entries)
        self._size = len(entries) * TRANSACTION_ENTRY.size

    def sync(self) -> None:
        """Return once the entries are on the device."""
        if self._size:
            file = self._disk.open(self.path)
            file.fsync()
            file.close()

    def __bool__(self) -> bool:
        return self._size > 0


def encode_transactions(entries: Iterable[AbortedTransaction]) -> bytes:
    """Return the content of a `.txnindex`."""
    return b"".join([TRANSACTION_ENTRY.pack(0, *each) for each in entries])


def read_transactions(data: bytes, path: str) -> list[AbortedTransaction]:
    """Return the entries of a `.txnindex`; raises CorruptionError."""
    if len(data) % TRANSACTION_ENTRY.size:
        raise CorruptionError(f"{path}: {len(data)} bytes are no whole number of {TRANSACTION_ENTRY.size}-byte entries")
    found = []
    for version, producer_id, first, last, stable in TRANSACTION_ENTRY.iter_unpack(data):
        if version > 0:
            raise CorruptionError(f"{path}: version {version} of a transaction index entry is not known")
        found.append(AbortedTransaction(ProducerId(producer_id), Offset(first), Offset(last), Offset(stable)))
    return found
