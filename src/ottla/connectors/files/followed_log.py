"""One log: the file that is written to and the older ones that rotation has made of it, read in the order of their lines.

A file is known by its inode; where that does not help, for copies and compressed files, by its content. So a renamed file
is read on where it is, one that was copied and truncated is read to its end in the copy, and what was read is not read
again once it is compressed.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.connectors.files.content import Content, opened
from ottla.connectors.files.followed import FollowedFile, Piece, ReplacedError, Waits
from ottla.connectors.files.framing import Framing
from ottla.connectors.files.marks import HEAD_BYTES, TAIL_BYTES, Mark, head_of, offset_of, tail_of
from ottla.connectors.files.names import FoundFile, is_packed

__all__ = ["FollowedLog", "Following"]

log = logging.getLogger(__name__)

COPY_WAIT_S = 5.0
"""How long a file that looks like an unfinished copy has to be quiet before it is a file of its own."""

COMPARED_BYTES = 1 << 16
"""How much of a file that was not read yet is held against a copy of it."""

FORGET_S = 3600.0
ORPHANS_MAX = 100
"""How long, and how many, marks of files that are gone are kept, for a copy may still appear."""


@dataclass(frozen=True, slots=True)
class Following:
    """How logs are followed; times are seconds."""

    framing: Framing
    waits: Waits
    read_bytes: int = 1 << 20
    close_rotated: float = 60.0
    """How long a rotated file has to be quiet before it is closed."""

    close_quiet: float = 300.0
    """The same for a file that may still be written to."""


@dataclass(slots=True, eq=False)
class _Orphan:
    """A mark whose content is no longer where it was."""

    mark: Mark
    since: float
    history: Sequence[Mark] = field(default_factory=tuple)
    after: FollowedFile | None = None
    """The file that holds newer lines in its place, where it was truncated."""


class FollowedLog:
    """Reads one log. `scanned` takes what files there are, `poll` gives records; times are seconds that only grow."""

    def __init__(self, path: str, following: Following, marks: Sequence[Mark], now: float) -> None:
        self.path = path
        self.files: list[FollowedFile] = []
        """Oldest first."""

        self._following = following
        self._orphans = [_Orphan(each, now) for each in marks]
        self._undecided: dict[str, tuple[int, float, Any]] = {}
        self._ignored: dict[str, int] = {}
        self._noticed = ""
        self._successor: FollowedFile | None = None
        self._unsure = False
        self._set_by_hand = any(not each.inode for each in marks)
        self.stale = False
        """Whether the files have to be looked for before anything more is read."""

    # What files there are

    def scanned(self, found: Sequence[FoundFile], now: float, *, at_end: bool = False) -> None:
        """Take the log's files as they are now; `at_end` begins with what is written from now on."""
        self.stale = False
        seen = {each.inode for each in found}
        for file in [each for each in self.files if each.found.inode not in seen]:
            self._gone(file, now)
        known = {each.found.inode: each for each in self.files}
        fresh = [each for each in found if not self._still(known.get(each.inode), each, now)]
        self._let_go(now)
        fresh = [each for each in fresh if not self._resumed(each, now)]
        for each in fresh:
            if self._ignored.get(each.inode) != each.size:
                self._identify(each, now, at_end=at_end or (self._set_by_hand and not each.active))
        self._set_by_hand = False
        for inode in set(self._undecided) - seen:
            del self._undecided[inode]
        self._orphans = [each for each in self._orphans if now - each.since < FORGET_S][-ORPHANS_MAX:]

    def _still(self, file: FollowedFile | None, found: FoundFile, now: float) -> bool:
        """Return whether a file that is followed is still the one of its inode, which another may have got since."""
        if file is None:
            return False
        if not file.seen(found):
            return True
        content = file.content() if file.open else opened(found.path, found.inode) if file.mark.position else None
        if file.open:
            if content is not None and not is_packed(found.path) and not _holds(content, file.mark):
                self._replaced(file, now)
            return True
        file.done = False
        if content is not None:
            same = _holds(content, file.mark)
            content.close()
            if same:
                return True
        self._drop(file, now)
        return False

    def _gone(self, file: FollowedFile, now: float) -> None:
        """Take note that a file has no name any more; one that is open may have been truncated and written to since."""
        content = file.removed()
        if content is not None and not is_packed(file.found.path) and not _holds(content, file.mark):
            self._replaced(file, now)

    def _let_go(self, now: float) -> None:
        """Drop files that are gone and read; their marks wait for a copy."""
        for file in list(self.files):
            if file.path is not None or (file.open and not file.done):
                continue
            self._drop(file, now)

    def _drop(self, file: FollowedFile, now: float) -> None:
        """Forget where a file is; a copy of it takes its place, or its mark waits for one."""
        self.forget(file)
        heirs = [each for each in self.files if each.original is file]
        for heir in heirs:
            heir.original = None
        if heirs:
            heirs[0].mark = file.mark.at(heirs[0].found.inode)
            heirs[0].done = False
        elif file.mark.position:
            self._orphan(_Orphan(file.mark, now, tuple(file.history)))

    def _orphan(self, orphan: _Orphan) -> None:
        self._orphans.append(orphan)
        self._ignored.clear()

    @property
    def restless(self) -> bool:
        """Return whether the files should be looked for again soon."""
        return self.stale or bool(self._undecided)

    @property
    def idle(self) -> bool:
        """Return whether there is nothing to follow and nothing to remember."""
        return not self.files and not self._orphans

    def _resumed(self, found: FoundFile, now: float) -> bool:
        """Take in a file whose inode is marked: the task was started again, or the file was away for a while."""
        marked = [each for each in self._orphans if each.mark.inode == found.inode]
        content = opened(found.path, found.inode) if marked else None
        if content is None:
            return False
        orphan = next((each for each in marked if _holds(content, each.mark)), None)
        content.close()
        if orphan is None:
            return False
        self._orphans.remove(orphan)
        self._insert(FollowedFile(found, orphan.mark, now), orphan.after)
        return True

    def _identify(self, found: FoundFile, now: float, *, at_end: bool) -> None:
        """Take in a file that was not there before: what it continues, what it is a copy of, or as a new one."""
        content = opened(found.path, found.inode)
        if content is None:
            self.stale = True  # it was renamed just now
            return
        self._successor, self._unsure = None, False
        held = False
        try:
            file = self._known(found, content, now)
            before = None if file is None else file.original or self._successor
            if file is None and self._unsure and self._wait(found, now):
                return
            if file is None and (found.selected or self._missed(found)):
                file = FollowedFile(found, _end_mark(found, content) if at_end else Mark(found.inode), now)
            if file is None:
                self._ignored[found.inode] = found.size
                return
            held = file.original is None and _is_young(found, self._following.close_rotated)
            if held:
                file.hold(content)
            self._insert(file, before)
        finally:
            if not held:
                content.close()

    def _missed(self, found: FoundFile) -> bool:
        """Return whether a file was rotated out of the patterns before it was seen: an older one of the log was read."""
        return not found.excluded and any(each.original is None and each.age < found.age for each in self.files)

    def _known(self, found: FoundFile, content: Content, now: float) -> FollowedFile | None:
        """Return a file that holds what was read, or is being read, elsewhere; None for what is new, or while `_unsure`."""
        growing = not found.active and _is_young(found, COPY_WAIT_S)
        if is_packed(found.path):
            growing = growing and not _is_complete(content)
            if growing:
                self._unsure = True
                return None
        return self._continuing(found, content, now, growing=growing) or self._copying(
            found, content, now, growing=growing
        )

    def _continuing(self, found: FoundFile, content: Content, now: float, *, growing: bool) -> FollowedFile | None:
        """Return a file that goes on where one that is gone was read up to."""
        for orphan in self._orphans:
            mark = self._continued(content, orphan, found)
            if mark is not None:
                log.info("%s continues what was read of log %s up to byte %d", found.path, self.path, mark.position)
                self._successor = orphan.after
                self._orphans = [each for each in self._orphans if each is not orphan]
                return FollowedFile(found, mark, now)
            self._unsure = self._unsure or (growing and orphan.mark.begins(content.read(0, HEAD_BYTES)) is None)
        return None

    def _continued(self, content: Content, orphan: _Orphan, found: FoundFile) -> Mark | None:
        """Return where in a file an orphan's reading goes on; None where it is another file."""
        mark = orphan.mark
        if not mark.inode:  # set by an operator, for the file that is written to
            return mark.at(found.inode) if found.active else None
        if not mark.head_bytes or not mark.begins(content.read(0, HEAD_BYTES)):
            return None
        for each in (mark, *reversed(orphan.history)):
            before = content.read(each.position - each.tail_bytes, each.tail_bytes)
            if len(before) == each.tail_bytes:
                return each.at(found.inode) if each.continues(before) else None
        return None

    def _copying(self, found: FoundFile, content: Content, now: float, *, growing: bool) -> FollowedFile | None:
        """Return a file that holds what another one holds, which is still there."""
        for file in self.files:
            other = None if file.original is not None else file.content()
            if other is None:
                continue
            same = _copied(content, other, file.mark, found)
            if file.done:
                file.close()
            if same:
                copy = FollowedFile(found, Mark(found.inode), now)
                copy.original = file
                return copy
            self._unsure = self._unsure or (growing and same is None)
        return None

    def _wait(self, found: FoundFile, now: float) -> bool:
        """Return whether to look at a file again later, because it may be a copy that is still being written."""
        size, since, _ = self._undecided.get(found.inode, (-1, now, found.age))
        if size != found.size:
            size, since = found.size, now
        self._undecided[found.inode] = (size, since, found.age)
        return now - since < COPY_WAIT_S

    def _insert(self, file: FollowedFile, before: FollowedFile | None) -> None:
        """Put a file in its place among the others, before a certain one where that is known to be newer."""
        self._undecided.pop(file.found.inode, None)
        place = next((i for i, each in enumerate(self.files) if each is before), None)
        if place is None:
            place = next((i for i, each in enumerate(self.files) if each.age > file.age), len(self.files))
        self.files.insert(place, file)

    # What they hold

    def poll(self, now: float) -> Piece | None:
        """Return the next records; None where there are none now. see `restless`."""
        waits, framing = self._following.waits, self._following.framing
        self._look_for_rotation()
        until = min((age for _, _, age in self._undecided.values()), default=None)
        for index, file in enumerate(self.files):
            if self.stale or (until is not None and file.age > until):
                return None
            if file.done or file.original is not None:
                continue
            if file.moved:
                self.stale = True
            elif file.more(now, waits, framing):
                piece, turn = self._older(index, now)
                if piece is None and turn:
                    piece = self._read(file, now)
                if piece is not None or not turn:
                    return piece
            else:
                piece = self._ended(file, now)
                if piece is not None:
                    return piece
        return None

    def _older(self, index: int, now: float) -> tuple[Piece | None, bool]:
        """Read files that are older than one that has something to read, and say whether that one's turn has come."""
        for older in self.files[:index]:
            if older.done or older.original is not None:
                continue
            piece = self._read(older, now, superseded=True)
            waits = older.pending and older.quiet(now) < self._following.waits.rotated
            if piece is not None or self.stale or waits:
                return piece, False
        return None, True

    def _look_for_rotation(self) -> None:
        """Ask for a scan, once, where the file that is written to is not the newest one that is known."""
        newest = self.files[-1] if self.files and self.files[-1].path == self.path else None
        try:
            about = os.stat(self.path)
            inode = f"{about.st_dev}:{about.st_ino}"
        except OSError:
            inode = ""
        if inode != ("" if newest is None else newest.found.inode) and inode != self._noticed:
            self._noticed, self.stale = inode, True

    def _read(self, file: FollowedFile, now: float, *, superseded: bool = False) -> Piece | None:
        following = self._following
        try:
            return file.read(now, following.waits, following.framing, following.read_bytes, superseded=superseded)
        except ReplacedError:
            self._replaced(file, now)
            self.stale = True  # a copy of it may be there
            return None

    def _replaced(self, file: FollowedFile, now: float) -> None:
        """Begin a file anew; what was not read of its lines before may be in a copy."""
        log.info("%s was truncated or replaced; it is read from its beginning", file)
        history = tuple(file.history)
        orphan = _Orphan(file.begin_anew(now), now, history, file)
        for copy in [each for each in self.files if each.original is file]:
            copy.original = None
            content = copy.content()
            mark = None if content is None else self._continued(content, orphan, copy.found)
            if mark is not None:
                copy.mark, copy.done = mark, False
                return
            self.forget(copy)
            self.stale = True  # the next scan looks at it again
        self._orphan(orphan)

    def _ended(self, file: FollowedFile, now: float) -> Piece | None:
        """Close a file that has been quiet for long, after the last line of one that is written to no more."""
        content, following = file.content(), self._following
        if content is None:
            file.done = True
            return None
        rotated = file.path != self.path
        if not (content.complete() and not file.pending):
            if file.quiet(now) < (following.close_rotated if rotated else following.close_quiet):
                return None
            piece = self._read(file, now, superseded=True) if rotated and file.pending else None
            if piece is not None or self.stale:
                return piece
        file.done = True
        file.close()
        return None

    def finished(self, now_s: float, after_s: float) -> list[FollowedFile]:
        """Return files that were read to their ends and not written to for so long; `now_s` is the time of the day."""
        return [
            each
            for each in self.files
            if each.path is not None
            and each.original is None
            and not each.damaged
            and now_s - each.found.modified_ns / 1e9 >= after_s
            and (each.done if is_packed(each.path) else each.found.size == each.mark.position)
        ]

    def forget(self, file: FollowedFile) -> None:
        """Drop a file that has been removed on purpose."""
        file.close()
        self.files.remove(file)

    def offset(self, mark: Mark) -> dict[str, object]:
        """Return the offset to store behind a mark, with those of the log's other files."""
        others = [each.mark for each in self.files if each.mark.inode != mark.inode and each.original is None]
        return offset_of(mark, others + [each.mark for each in self._orphans if each.mark.inode != mark.inode])

    def close(self) -> None:
        """Close every file."""
        for file in self.files:
            file.close()


def _is_young(found: FoundFile, seconds: float) -> bool:
    """Return whether a file was written to so short a time ago."""
    return time.time() - found.modified_ns / 1e9 < seconds


def _holds(content: Content, mark: Mark) -> bool:
    """Return whether a file is the marked one, by its first bytes and those before the position."""
    if mark.head_bytes and not mark.begins(content.read(0, HEAD_BYTES)):
        return False
    return mark.continues(content.read(mark.position - mark.tail_bytes, mark.tail_bytes))


def _copied(content: Content, other: Content, mark: Mark, found: FoundFile) -> bool | None:
    """Return whether a file holds what another begins with, as far as that was read; None where it is too short to say."""
    if not mark.position:
        beginning = content.read(0, COMPARED_BYTES)
        same = other.read(0, COMPARED_BYTES).startswith(beginning)
        return same if beginning else None
    beginning = content.read(0, HEAD_BYTES)
    begins = mark.begins(beginning)
    if begins is None:
        return None if other.read(0, len(beginning)) == beginning else False
    if not begins:
        return False
    before = content.read(mark.position - mark.tail_bytes, mark.tail_bytes)
    if len(before) == mark.tail_bytes:
        return mark.continues(before)
    return not is_packed(found.path) and _same_end(content, other, found.size)


def _is_complete(content: Content) -> bool:
    """Return whether a compressed file is whole, by unpacking it."""
    place = 0
    while piece := content.read(place, COMPARED_BYTES):
        place += len(piece)
    return content.complete()


def _same_end(content: Content, other: Content, size: int) -> bool:
    """Return whether a file's last bytes stand at the same place in another."""
    start = max(0, size - TAIL_BYTES)
    return content.read(start, TAIL_BYTES) == other.read(start, size - start)


def _end_mark(found: FoundFile, content: Content) -> Mark:
    """Return the mark behind the last whole line."""
    end, size = 0, 1 << 16
    place = found.size
    while place > 0 and not end:
        start = max(0, place - size)
        newest = content.read(start, place - start).rfind(b"\n")
        end = start + newest + 1 if newest >= 0 else 0
        place = start
    start = max(0, end - TAIL_BYTES)
    return Mark(
        found.inode, end, 0, head_of(content.read(0, HEAD_BYTES), end), tail_of(content.read(start, end - start))
    )
