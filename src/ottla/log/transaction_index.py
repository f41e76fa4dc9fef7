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

from bisect import bisect_left
from collections.abc import Iterable
from contextlib import suppress
from struct import Struct

from ottla.base import CorruptionError, MissingFileError, Offset, ProducerId, StorageError
from ottla.log.derived_sums import FileSum, sum_of
from ottla.log.disk import Disk, replace_file
from ottla.log.types import AbortedTransaction

__all__ = ["TRANSACTION_ENTRY", "TransactionIndex", "encode_transactions", "read_transactions"]

TRANSACTION_ENTRY = Struct(">hqqqq")


class TransactionIndex:
    """The aborted transactions of one segment, kept in memory once read: there are few.

    The log has the markers already when an entry comes, so taking one never fails: what cannot be written waits, until the
    segment is sealed at the latest; after a crash recovery builds the file again.
    """

    __slots__ = (
        "_aborted",
        "_disk",
        "_expected",
        "_found",
        "_is_stale",
        "_pending",
        "_since",
        "_written",
        "is_doubtful",
        "is_proven",
        "open_from",
        "path",
    )

    def __init__(self, disk: Disk, path: str, size: int) -> None:
        self.path = path
        self._disk = disk
        self._aborted: list[AbortedTransaction] | None = None if size else []
        self._found = size
        self._since: list[AbortedTransaction] = []
        """What was aborted while nobody knew what was before."""
        self._written = -(-size // TRANSACTION_ENTRY.size)
        """Entries of the file."""
        self._pending: list[AbortedTransaction] = []
        """Entries that the file has not got yet."""
        self._is_stale = False
        """True where the file has entries that were cut."""
        self._expected: FileSum | None = None
        """What the file was when it was known to be right; whatever was appended since lies behind that."""
        self.is_doubtful = True
        """True until it is known to be right what a start found, or did not find: by its sum, or by the log."""
        self.is_proven = False
        """True where this process wrote the file, or its sum is known."""
        self.open_from = -1
        """Where the oldest transaction begins that is open at the segment's end; -1 where nobody has looked."""

    def expect(self, expected: FileSum) -> None:
        """Believe the file, if there has to be one, only if this is its sum."""
        if expected.size == self._found:
            self._expected, self.is_proven = expected, True
            self.is_doubtful = expected.size > 0

    def believe(self) -> bool:
        """Read what a start found; False where nothing tells that it is what was written. Raises StorageError."""
        expected = self._expected
        if expected is None:
            return False
        data = self._disk.read(self.path) or b""
        if sum_of(data[: expected.size]) != expected or len(data) < self._written * TRANSACTION_ENTRY.size:
            self._expected, self.is_proven = None, False
            return False
        found = read_transactions(data[: self._written * TRANSACTION_ENTRY.size], self.path)
        self._aborted = [*found, *self._pending]
        self._know()
        return True

    def look(self) -> None:
        """Read what a start found if it has to be read; raises StorageError."""
        if self.is_doubtful:
            self.believe()

    def _know(self) -> None:
        self.is_doubtful, self.is_proven = False, True
        self._since.clear()

    def content(self) -> bytes:
        """Return the file; raises CorruptionError where it is not what is known to be there, and StorageError."""
        data = self._disk.read(self.path) if self._written else b""
        entries = self._written if self._aborted is None else len(self._aborted)
        found = b"" if data is None else data
        wanted = self._expected is None or sum_of(found[: self._expected.size]) == self._expected
        if self._is_stale or self._pending or len(found) != entries * TRANSACTION_ENTRY.size or not wanted:
            raise CorruptionError(f"{self.path} does not hold what was written to it", self.path)
        return found

    def restore(self, entries: Iterable[AbortedTransaction], end_offset: int) -> None:
        """Go on with what the log says up to an offset, and what was aborted since.

        The file follows now, or with the next `write` where there is no room for it.
        """
        aborted = [*entries, *(each for each in self._since if each.last_offset >= end_offset)]
        self._aborted, self._is_stale = aborted, True
        self._pending.clear()
        self._expected = None
        self._know()
        with suppress(StorageError):
            if aborted and self._disk.read(self.path) == encode_transactions(aborted):
                self._written, self._is_stale = len(aborted), False
            self.write()

    @property
    def aborted(self) -> list[AbortedTransaction]:
        """Return the entries, in the order in which the transactions ended; the first time they are read.

        Where they are doubtful, as the file has them: all, or some, or those of another segment.
        """
        if self._aborted is None and self.is_doubtful and self._expected is None:
            self._aborted = [*self._readable(), *self._pending]
        if self._aborted is None:
            data = self._disk.read(self.path) if self._written else b""
            if data is None:  # without it, what was aborted would pass for committed
                raise MissingFileError(f"{self.path}: {self._written} aborted transactions were there", self.path)
            found = read_transactions(data[: self._written * TRANSACTION_ENTRY.size], self.path)
            self._aborted = [*found, *self._pending]
        return self._aborted

    def _readable(self) -> list[AbortedTransaction]:
        """Return the entries that a file has of which nothing is known; none where it is no such file."""
        data = self._disk.read(self.path) or b""
        try:
            return read_transactions(data[: self._written * TRANSACTION_ENTRY.size], self.path)
        except CorruptionError:
            return []

    def between(self, offset: int, upper_bound: int) -> tuple[list[AbortedTransaction], bool]:
        """Return those with records from `offset` to `upper_bound`, and whether no later segment has any."""
        entries, found = self.aborted, []
        for at in range(bisect_left(entries, offset, key=_last_offset), len(entries)):
            each = entries[at]
            if each.first_offset < upper_bound:
                found.append(each)
            if each.last_stable_offset >= upper_bound:  # what ends later has begun later
                return found, True
        return found, False

    def append(self, entry: AbortedTransaction) -> None:
        """Add an entry, and hand it to the operating system if that can be done now."""
        self._pending.append(entry)
        if self.is_doubtful:
            self._since.append(entry)
        if self._aborted is not None:
            self._aborted.append(entry)
        with suppress(StorageError):
            self.write()

    def write(self) -> None:
        """Make the file what it has to be; raises StorageError."""
        if self._is_stale:
            is_doubtful, since = self.is_doubtful, list(self._since)
            self.replace(self.aborted)
            if is_doubtful:  # what was cut is gone; what is left is as doubtful as before
                self.is_doubtful, self.is_proven, self._since = True, False, since
        elif self._pending:
            file = self._disk.open(self.path, create=True)
            try:
                file.pwrite(self._written * TRANSACTION_ENTRY.size, encode_transactions(self._pending))
            finally:
                file.close()
            self._written += len(self._pending)
            self._pending.clear()

    def cut(self, end_offset: int) -> None:
        """Forget the transactions whose marker lies at `end_offset` or after it; `aborted` was read before."""
        kept = [each for each in self.aborted if each.last_offset < end_offset]
        self._since = [each for each in self._since if each.last_offset < end_offset]
        self.open_from = -1
        if len(kept) < len(self.aborted):
            self._aborted, self._is_stale, self._expected = kept, True, None

    def replace(self, entries: list[AbortedTransaction]) -> None:
        """Make these the whole content; no file where there are none."""
        if entries:
            replace_file(self._disk, self.path, encode_transactions(entries), durable=False)
        elif self.has_file:
            self._disk.unlink(self.path)
        self._aborted = list(entries)
        self._written, self._is_stale = len(entries), False
        self._expected = None
        self._know()
        self._pending.clear()

    def sync(self) -> None:
        """Return once the entries are on the device."""
        self.write()
        if self._written:
            file = self._disk.open(self.path)
            try:
                file.fsync()
            finally:
                file.close()

    @property
    def has_file(self) -> bool:
        """True where there may be a file."""
        return self._written > 0 or self._is_stale or bool(self._pending)

    def rename(self, path: str) -> None:
        """Give the file another name."""
        self._disk.rename(self.path, path)
        self.path = path

    def moved(self, path: str) -> None:
        """Follow a rename."""
        self.path = path

    def __bool__(self) -> bool:
        return self._written > 0 or bool(self._pending) if self._aborted is None else bool(self._aborted)


def _last_offset(entry: AbortedTransaction) -> int:
    return entry.last_offset


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
