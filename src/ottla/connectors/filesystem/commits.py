"""What the sink remembers of its batches, so that each is written once and readers see whole files only.

A batch goes like this:

1. Spark's tasks write files into `<logs>/<connector>/staging/…`, where no reader looks; they are made durable;
2. a commit file is created, `<logs>/<connector>/commits/<number>.json`, with what is to be renamed into what, and how far
   the run has come in each partition. Once that is durable, and there is none of a higher number, the batch is decided;
3. the files are renamed to their final names, one by one: each is seen whole or not at all. The names are made durable,
   and only then is anything cleared away that could bring them back;
4. the worker commits the offsets.

Whoever starts does 3 again for the last commit file, and creates one of its own with the next number and no files: that is
where its run begins. From then on an older run decides nothing any more, for it finds either its number taken or a higher
one. Only then is thrown away what is staged. A run that stood still while another took its place, and goes on where it
was, would else commit a batch of which half of the files were cleared away meanwhile.

Spark's own file sink leaves files of broken batches between the others and keeps a list of the good ones, which only Spark
reads; here there is nothing to leave out, for any reader.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ottla.base import OffsetRange, TopicPartition
from ottla.connect import ConnectError, Files, Recovered

__all__ = ["Commits", "Move"]

VERSION = 1
COMMITS_KEPT = 100
RENAMES_AT_ONCE = 8
WHOLE, TORN = ".json", ".torn"
"""What the names of commit files end with; those that were not whole when a later run began are given another name, under
which their writer does not find them."""
GIVES_WAY = "another worker runs the same connector. This one gives way"


@dataclass(frozen=True, slots=True)
class Move:
    """A file that was staged, its final address, and its bytes."""

    staged: str
    final: str
    size: int


class Commits:
    """The commit files of one connector, in a folder of their own."""

    def __init__(self, files: Files, folder: str) -> None:
        self._files = files
        self._folder = f"{folder}/commits"
        self.staging = f"{folder}/staging"
        self._next = 1
        self._ends: dict[TopicPartition, int] = {}

    def recover(self) -> Recovered | None:
        """Finish what the last run decided; returns how far that run came."""
        found = self._last()
        if found is None:
            return None
        self._finish([Move(*each) for each in found["files"]])
        ends = {TopicPartition(topic, partition): end for topic, partition, _, end in found["stretches"]}
        ends |= {TopicPartition(topic, partition): end for topic, partition, end in found.get("ends", ())}
        return Recovered(found["token"], ends, is_newest="ends" in found)

    def begin(self, token: str, positions: Mapping[TopicPartition, int]) -> None:
        """Begin a run behind what `recover` found, from which on older ones decide nothing, and clear away what they staged.

        Raises ConnectError where another run began since then.
        """
        staged = self._files.names(self.staging)  # what later runs stage is not among it
        self._ends = dict(positions)
        self._decide(token, (), ())
        for name in staged:
            self._files.delete(f"{self.staging}/{name}")
        for number, name in self._numbered():
            if number < self._next - COMMITS_KEPT:
                self._files.delete(f"{self._folder}/{name}")

    def commit(self, token: str, ranges: Sequence[OffsetRange], moves: Sequence[Move]) -> None:
        """Decide a batch and bring its files to their places; raises ConnectError where another worker is at it.

        A power failure later than this takes nothing of the batch. Raises OSError where that cannot be had.
        """
        self._files.sync([each.staged for each in moves])
        self._decide(token, ranges, moves)
        self._finish(moves)
        self._files.delete(self._file(self._next - 1 - COMMITS_KEPT))

    def _decide(self, token: str, ranges: Sequence[OffsetRange], moves: Sequence[Move]) -> None:
        """Create the next commit file; it counts once it is durable and the last."""
        ends = {**self._ends, **{each.partition: each.end for each in ranges}}
        facts = {
            "version": VERSION,
            "token": token,
            "stretches": [[*each.partition, each.start, each.end] for each in sorted(ranges)],
            "ends": [[*partition, end] for partition, end in sorted(ends.items())],
            "files": [[each.staged, each.final, each.size] for each in moves],
        }
        file = self._file(self._next)
        try:
            self._files.create(file, json.dumps(facts))
        except FileExistsError as error:
            raise ConnectError(f"{file} is there already: {GIVES_WAY}") from error
        self._files.sync([file])
        last, name = self._numbered()[-1]
        if last != self._next or not name.endswith(WHOLE):
            raise ConnectError(f"{file} is not the last commit file: {GIVES_WAY}")
        self._ends = ends
        self._next += 1

    def _finish(self, moves: Sequence[Move]) -> None:
        """Do what was decided, durably: what is staged may be cleared away then."""
        with ThreadPoolExecutor(RENAMES_AT_ONCE) as pool:
            for _ in pool.map(self._rename_one, moves):
                pass
        self._files.sync([each.final for each in moves])

    def _rename_one(self, move: Move) -> None:
        """Rename a file unless that was done before. One of the same name is of an earlier run over the same offsets."""
        there = self._files.size(move.final)
        if self._files.size(move.staged) is None:
            if there is None:
                raise ConnectError(f"{move.final} was decided to be written, and neither it nor {move.staged} is there")
            return
        if there is not None:
            self._files.delete(move.final)
        self._files.rename(move.staged, move.final)

    def _last(self) -> dict[str, Any] | None:
        """Return what the last commit file says that is whole; the next number is behind all that are there.

        One that is not whole may still be written by a run that stands still. It is renamed before it is looked at once
        more: it is whole by then, and counts, or its writer, who looks for it when it is whole, misses it.
        """
        numbered = self._numbered()
        self._next = numbered[-1][0] + 1 if numbered else 1
        for _, name in reversed(numbered):
            found = self._read(name)
            if found is None and name.endswith(WHOLE):
                torn = name.removesuffix(WHOLE) + TORN
                self._files.rename(f"{self._folder}/{name}", f"{self._folder}/{torn}")
                found = self._read(torn)
            if found is not None:
                return found
        return None

    def _numbered(self) -> list[tuple[int, str]]:
        names = ((name.removesuffix(WHOLE).removesuffix(TORN), name) for name in self._files.names(self._folder))
        return sorted((int(number), name) for number, name in names if number.isdecimal())

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            found = json.loads(self._files.read(f"{self._folder}/{name}"))
        except (ValueError, RecursionError):
            return None
        if found.get("version") != VERSION:
            raise ConnectError(
                f"{self._folder}/{name} is of version {found.get('version')}, and {VERSION} is known here"
            )
        return dict(found)

    def _file(self, number: int) -> str:
        return f"{self._folder}/{number:010d}{WHOLE}"
