"""A log's segments in order, and what their files still owe to them.

Every change is made in memory at once and whole, after everything that can fail without it. Where the files cannot follow,
because the disk is full or fails, they owe it: a truncation has to be on the disk before anything is appended (`settle`), a
compaction's exchange and files below the log's start before a truncation, or some time later (`pay`). Whoever asks for those
hears of the error; a process that ends before leaves what a start knows how to complete or undo.

A compaction's exchange is three steps: `promise` and `complete` rename files, on any thread, and `exchange` between them
changes memory, on the log's own. Where the log is truncated in between, it takes the promise back first.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import pairwise

from ottla.base import Offset, StorageError
from ottla.log.derived_sums import DERIVED_SUMS_FILE
from ottla.log.disk import Disk, join
from ottla.log.flush_mark import FLUSH_MARK_FILE
from ottla.log.producer_state import Doubt, Examined, ProducerState, examine
from ottla.log.segment import Segment
from ottla.log.swap import Swap
from ottla.log.trash import Trash
from ottla.log.types import AbortedTransaction, CleanedGroup, Cut, LogSlice

__all__ = ["Segments"]


class Segments:
    """The segments of one log; the last one is active. There is always one, and their base offsets ascend."""

    __slots__ = (
        "_disk",
        "_gone",
        "_has_marks",
        "_mutex",
        "_promised",
        "_state",
        "_swaps",
        "all",
        "bases",
        "cuts",
        "flushing",
        "folder",
        "folder_changed",
        "generation",
        "sums_gone",
        "trash",
        "trouble",
        "unsettled",
    )

    def __init__(self, disk: Disk, folder: str, segments: list[Segment], state: ProducerState) -> None:
        self._disk = disk
        self.folder = folder
        self.all = segments
        """The same list always, so that it may be kept; so is `bases`."""
        self.bases = [each.base_offset for each in segments]
        assert segments and all(first < second for first, second in pairwise(self.bases)), self.bases
        self._state = state
        self.trash = Trash()
        self.flushing = False
        """True while another thread may be about to open any of the files."""
        self.folder_changed = False
        """True where names are not on the device."""
        self.unsettled = False
        """True where the files do not follow a truncation yet."""
        self.trouble: StorageError | None = None
        """What kept them from it."""
        self.cuts = 0
        """How often records were taken from the end."""
        self.generation = 0
        """A number that is another one where no promise of before holds any more."""
        self.sums_gone = False
        """True where `derived-sums` was removed, so that all of it is to be written anew."""
        self._has_marks = False
        """True where flush marks may name what was cut off since."""
        self._gone: list[Segment] = []
        self._promised: Swap | None = None
        """What a start would complete, and memory does not have yet."""
        self._swaps: list[Swap] = []
        self._mutex = disk.mutex()
        """Held by who removes segments from the front, or does something for a compaction with files."""

    @property
    def is_settled(self) -> bool:
        """True where every segment has its files, under their own names."""
        return not (self.unsettled or self._swaps or self.all[0].is_set_aside)

    # -- changing

    def begin(self, base_offset: int, now_ms: int, preallocate: int) -> Segment:
        """Begin a new segment, whole or not at all; an empty one before it goes."""
        segment = Segment.create(self._disk, self.folder, base_offset, now_ms, preallocate=preallocate)
        if not self.all[-1].size:  # its base offset lies too far back for what comes
            self._gone.append(self.all.pop())
            self.bases.pop()
            self.unsettled = True
        assert not self.bases or self.bases[-1] < base_offset, f"{base_offset} after {self.bases[-1]}"
        self.all.append(segment)
        self.bases.append(base_offset)
        self.folder_changed = True
        self.try_to_settle()
        return segment

    def cut(self, count: int, cut: Cut) -> None:
        """Keep the first so many segments, the last of them cut; nothing fails."""
        assert 0 < count <= len(self.all)
        self._gone = self.all[count:]
        del self.all[count:], self.bases[count:]
        self.all[-1].cut(cut)
        self.cuts += 1
        self.unsettled = self._has_marks = True

    def restart(self, base_offset: int, now_ms: int, preallocate: int) -> None:
        """Go on with one empty segment, or change nothing."""
        draft = Segment.draft(self._disk, self.folder, base_offset, now_ms, preallocate=preallocate)
        self._gone = list(self.all)
        self.all[:], self.bases[:] = [draft], [base_offset]
        self.cuts += 1
        self.unsettled = self._has_marks = True

    def set_aside(self, count: int, now_ms: int, delay_ms: int) -> None:
        """Take the oldest segments out, one by one; their files go after the delay. May be tried again after an error."""
        assert count < len(self.all), "the active segment stays"
        if not count:
            return
        with self._mutex:
            for segment in self.all[:count]:
                segment.set_aside()
                self.trash.add(segment, now_ms + delay_ms)
                del self.all[0], self.bases[0]
                self.folder_changed = True
        self._state.keep_only(self.bases)

    # -- a compaction's exchange

    def promise(self, group: CleanedGroup, generation: int, now_ms: int, delay_ms: int) -> Swap | None:
        """Have a cleaned segment take the place of those that it was made from with the next start, or change nothing.

        None where those are not there any more. Raises StorageError. May run on any thread.
        """
        self.complete(now_ms, delay_ms)  # in the order of offsets: a tombstone must not go before what it deletes
        with self._mutex:
            at = bisect_left(self.bases, group.bases[0])
            end = at + len(group.bases)
            if generation != self.generation or self._promised or self.bases[at:end] != list(group.bases):
                return None
            swap = Swap(self._disk, self.folder, self.all[at:end], group, now_ms)
            swap.begin()
            self._promised = swap
            return swap

    def exchange(self, swap: Swap) -> bool:
        """Do now, in memory, what was promised; False, and nothing has happened, where that does not hold any more."""
        assert not self.flushing, "a flush would look for files whose names change"
        at = bisect_left(self.bases, swap.new.base_offset)
        end = at + len(swap.old)
        if self._promised is not swap or tuple(self.all[at:end]) != swap.old:
            return False
        self._promised = None
        self.all[at:end], self.bases[at:end] = [swap.new], [swap.new.base_offset]
        swap.snapshots = self._state.forget_others(self.bases)
        self._swaps.append(swap)
        self.folder_changed = True
        return True

    def complete(self, now_ms: int, delay_ms: int) -> None:
        """Give the files of what was exchanged the names that they have to have.

        Raises StorageError, and may be tried again. May run on any thread; lets others have the mutex after each segment.
        """
        done = False
        while not done:
            with self._mutex:
                done = self._complete_next(now_ms + delay_ms)

    def _complete_next(self, due_ms: int) -> bool:
        if not self._swaps:
            return True
        if self._swaps[0].finish_next(lambda segment: self.trash.add(segment, due_ms)):
            del self._swaps[0]
        self.folder_changed = True
        return not self._swaps

    def revoke(self) -> None:
        """Take back what was promised and not exchanged; raises StorageError, and may be tried again. On any thread."""
        with self._mutex:
            self.generation += 1
            if self._promised is not None:
                self._promised.revoke()
                self._promised = None

    # -- what the files owe

    def try_to_settle(self) -> None:
        """As `settle`, or later."""
        if self.unsettled:
            try:
                self.settle()
            except StorageError as error:
                self.trouble = error

    def settle(self) -> None:
        """Do with the files what a truncation did in memory; raises StorageError, and may be tried again."""
        gone = self._gone
        while gone:  # newest first, so that a crash leaves no gap
            if self.flushing:
                gone[-1].set_aside()
                self.trash.add(gone[-1], 0)
            else:
                gone[-1].remove()
            gone.pop()
        if self._has_marks:
            self._disk.unlink(join(self.folder, FLUSH_MARK_FILE))
            self._disk.unlink(join(self.folder, DERIVED_SUMS_FILE))
            self._has_marks, self.sums_gone = False, True
        # before the cut and the new segment: were they back after a power failure, there would be a gap
        self._disk.fsync_dir(self.folder)
        self.all[-1].settle()
        self._state.settle()
        self.folder_changed = True
        self.unsettled = False

    def pay(self, now_ms: int, delay_ms: int) -> None:
        """Do with the files all that they owe; raises StorageError, and may be tried again.

        To be done before a truncation: a start completes an exchange over what is truncated, and written anew.
        """
        self.revoke()
        if self.unsettled:
            self.settle()
        self.complete(now_ms, delay_ms)

    # -- reading

    def read(self, offset: int, end: int, bound: int, max_bytes: int, min_one_batch: bool) -> LogSlice:
        """Return the slice from `offset` on, of a log that ends at `end`; see `Log.read`."""
        bases, segments = self.bases, self.all
        at = bisect_right(bases, offset) - 1
        segment = segments[at]
        if offset >= bound:
            return LogSlice(segment.file, segment.size, 0, Offset(segment.base_offset))
        found = segment.locate(offset)
        while found is None:  # compaction may leave a segment's last offsets without a record
            at += 1
            if at == len(segments):
                return LogSlice(segment.file, segment.size, 0, Offset(segment.base_offset))
            segment = segments[at]
            found = segment.locate(offset)
        position, batch_end = found
        stop = segment.size
        if bound < end and (at + 1 == len(bases) or bound < bases[at + 1]):
            limit = segment.locate(bound)
            stop = limit.position if limit is not None else stop
        size = min(stop - position, max_bytes)
        if size < batch_end - position:  # not even the first batch fits
            size = batch_end - position if min_one_batch and batch_end <= stop else 0
        return LogSlice(segment.file, position, size, Offset(segment.base_offset))

    def aborted(self, offset: int, upper_bound: int, found: LogSlice | None) -> list[AbortedTransaction]:
        """Return the aborted transactions with records from `offset` to `upper_bound`; see `Log.aborted_transactions`."""
        aborted: list[AbortedTransaction] = []
        while (doubt := self._aborted(offset, upper_bound, found, aborted)) is not None:
            self.take(examine(self._disk, doubt))
            aborted.clear()
        return aborted

    def known_aborted(
        self, offset: int, upper_bound: int, found: LogSlice | None
    ) -> tuple[list[AbortedTransaction], Doubt | None]:
        """As `aborted`, as far as it is known; with what is to be examined before all is."""
        aborted: list[AbortedTransaction] = []
        doubt = self._aborted(offset, upper_bound, found, aborted)
        return aborted, doubt

    def _aborted(
        self, offset: int, upper_bound: int, found: LogSlice | None, aborted: list[AbortedTransaction]
    ) -> Doubt | None:
        """Add to `aborted` what segments are known to have; return what is not known, where anything is not."""
        at = max(bisect_right(self.bases, offset if found is None else found.segment_base_offset) - 1, 0)
        if found is not None:
            end = self.all[at].end_of(found.position + found.size) if found.size else offset
            if end < 0 and at + 1 < len(self.bases):
                end = self.bases[at + 1]
            upper_bound = min(upper_bound, end) if end >= 0 else upper_bound
        for each in range(at, len(self.all)):
            transactions = self.all[each].transactions
            if transactions.is_doubtful and not transactions.believe():
                return self._doubt(each, upper_bound)
            if transactions:
                more, is_all = transactions.between(offset, upper_bound)
                aborted += more
                if is_all:
                    break
            if transactions.open_from >= upper_bound <= self.bases[each + 1]:  # what begins later is not asked for
                break
        return None

    def _doubt(self, at: int, upper_bound: int) -> Doubt:
        sources = tuple((each.base_offset, each.file.path, each.size) for each in self.all)
        sums = tuple(self._state.sums.items())
        return Doubt(self.folder, sources, self.bases[at], upper_bound, sums, self.cuts)

    def take(self, found: Examined) -> None:
        """Believe what segments say of themselves, unless the log was truncated since."""
        if found.cuts != self.cuts:
            return
        for each in found.segments:
            at = bisect_left(self.bases, each.base_offset)
            if at == len(self.bases) or self.bases[at] != each.base_offset:
                continue
            segment = self.all[at]
            if segment.transactions.is_doubtful:
                segment.transactions.restore(each.aborted, each.end_offset)
                if segment.size == each.size and at + 1 < len(self.bases):
                    segment.transactions.open_from = each.open_from

    # -- the files

    def close(self) -> None:
        """Let every descriptor go."""
        for segment in (*self.all, *self._gone):
            segment.close()
        self.trash.release()

    def moved(self, folder: str) -> None:
        """Follow a rename of the folder."""
        self.folder = folder
        self.trash.moved(folder)
        for segment in (*self.all, *self._gone):
            segment.moved(folder)
