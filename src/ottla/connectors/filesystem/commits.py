"""What the sink remembers of its batches, so that each is written once and readers see whole files only.

A batch goes like this:

1. Spark's tasks write files into `<logs>/<connector>/staging/…`, where no reader looks; they are made durable;
2. a commit file is created, `<logs>/<connector>/commits/<number>.json`, with what is to be renamed into what, and how far
   the batch goes. Once that is durable, the batch is decided;
3. the files are renamed to their final names, one by one: each is seen whole or not at all. The names are made durable,
   and only then is anything cleared away that could bring them back;
4. the worker commits the offsets.

Whoever starts does 3 again for the last commit file, and throws away what was staged and not decided. Spark's own file
sink leaves files of broken batches between the others and keeps a list of the good ones, which only Spark reads; here
there is nothing to leave out, for any reader. A commit file is created only where there is none of its number, so that of
two workers that both believe to run the task one fails.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from ottla.base import OffsetRange, TopicPartition
from ottla.connect import ConnectError, Files, Recovered

__all__ = ["Commits", "Move"]

VERSION = 1
COMMITS_KEPT = 100
RENAMES_AT_ONCE = 8


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

    def recover(self) -> Recovered | None:
        """Finish what the last commit decided, and clear away what nobody did; returns how far that commit goes."""
        numbers = self._numbers()
        found = None
        while numbers and found is None:
            found = self._read(numbers[-1])
            if found is None:  # it was being created when its writer died, and decided nothing
                self._files.delete(self._file(numbers.pop()))
        self._next = numbers[-1] + 1 if numbers else 1
        recovered = None
        if found is not None:
            self._finish([Move(*each) for each in found["files"]])
            ends = {TopicPartition(topic, partition): end for topic, partition, _, end in found["stretches"]}
            recovered = Recovered(found["token"], ends)
        self._files.delete(self.staging)
        return recovered

    def commit(self, token: str, ranges: Sequence[OffsetRange], moves: list[Move]) -> None:
        """Decide a batch and bring its files to their places; raises ConnectError where another writer is at it.

        A power failure later than this takes nothing of the batch. Raises OSError where that cannot be had.
        """
        facts = {
            "version": VERSION,
            "token": token,
            "stretches": [[*each.partition, each.start, each.end] for each in sorted(ranges)],
            "files": [[each.staged, each.final, each.size] for each in moves],
        }
        self._files.sync([each.staged for each in moves])
        try:
            self._files.create(self._file(self._next), json.dumps(facts))
        except FileExistsError as error:
            raise ConnectError(
                f"{self._file(self._next)} is there already: another worker runs the same connector. This one gives way"
            ) from error
        self._files.sync([self._file(self._next)])
        self._finish(moves)
        self._files.delete(self._file(self._next - COMMITS_KEPT))
        self._next += 1

    def _finish(self, moves: list[Move]) -> None:
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

    def _numbers(self) -> list[int]:
        names = [name.removesuffix(".json") for name in self._files.names(self._folder)]
        return sorted(int(name) for name in names if name.isdecimal())

    def _read(self, number: int) -> dict[str, Any] | None:
        try:
            found = json.loads(self._files.read(self._file(number)))
        except ValueError:
            return None
        if found.get("version") != VERSION:
            raise ConnectError(
                f"{self._file(number)} is of version {found.get('version')}, and {VERSION} is known here"
            )
        return dict(found)

    def _file(self, number: int) -> str:
        return f"{self._folder}/{number:010d}.json"
