"""`Files` on this machine's disk, that can die at any operation: what a crash leaves behind, step by step."""

from __future__ import annotations

import os
import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

__all__ = ["DiedError", "LocalFiles", "VolatileFiles"]


class DiedError(BaseException):
    """The process has ended here."""


class LocalFiles:
    """Addresses are plain paths. `dies_at` is the operation that changes something and is the last one begun.

    With `torn` that operation has begun to write, and was broken off in the middle.
    """

    def __init__(self, *, dies_at: int | None = None, torn: bool = False) -> None:
        self.dies_at, self.torn = dies_at, torn
        self.changes = 0

    def step(self) -> bool:
        """Count an operation; true where it is the one that is broken off."""
        self.changes += 1
        if self.dies_at is not None and self.changes >= self.dies_at:
            if self.changes > self.dies_at or not self.torn:
                raise DiedError
            return True
        return False

    def work(self) -> None:
        """Do something that is none of these operations, and may die there, too."""
        if self.step():
            raise DiedError

    def sizes(self, folder: str) -> dict[str, int]:
        return {str(path): path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()}

    def names(self, folder: str) -> list[str]:
        return sorted(os.listdir(folder)) if Path(folder).is_dir() else []

    def size(self, file: str) -> int | None:
        return Path(file).stat().st_size if Path(file).is_file() else None

    def read(self, file: str) -> str:
        return Path(file).read_text()

    def create(self, file: str, text: str) -> None:
        broken = self.step()
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        with Path(file).open("x") as out:
            out.write(text[: len(text) // 2] if broken else text)
        if broken:
            raise DiedError

    def rename(self, source: str, target: str) -> None:
        broken = self.step()
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        if broken:
            raise DiedError
        Path(source).rename(target)

    def sync(self, files: Sequence[str]) -> None:
        if self.step():
            raise DiedError
        for each in files:
            if not Path(each).is_file():
                raise FileNotFoundError(each)

    def delete(self, path: str) -> None:
        broken = self.step()
        if Path(path).is_dir():
            found = sorted(each for each in Path(path).rglob("*") if each.is_file())
            for each in found[: len(found) // 2] if broken else ():
                each.unlink()
            if not broken:
                shutil.rmtree(path)
        else:
            Path(path).unlink(missing_ok=True)
        if broken:
            raise DiedError


class Turns:
    """Who may go on, for how many steps, one after another; whoever has ended is passed over."""

    def __init__(self, turns: Sequence[tuple[str, int]]) -> None:
        self._turns = list(turns)
        self._ended: set[str] = set()
        self._changed = threading.Condition()

    def wait(self, name: str) -> None:
        """Return when it is this one's turn, which is a step shorter then."""
        with self._changed:
            while self._turns and self._turns[0][0] != name:
                assert self._changed.wait(10), f"{name} waits, and {self._turns[0][0]} does not go on"
            if self._turns:
                _, left = self._turns[0]
                self._turns[0] = (name, left - 1)
                self._pass()

    def end(self, name: str) -> None:
        """Take no more turns."""
        with self._changed:
            self._ended.add(name)
            self._pass()

    def _pass(self) -> None:
        while self._turns and (self._turns[0][1] <= 0 or self._turns[0][0] in self._ended):
            self._turns.pop(0)
        self._changed.notify_all()


class TurnFiles(LocalFiles):
    """Files of a run that takes turns with another; to look is a step, too."""

    def __init__(self, turns: Turns, name: str) -> None:
        super().__init__()
        self._turns, self._name = turns, name

    def step(self) -> bool:
        self._turns.wait(self._name)
        return super().step()

    def end(self) -> None:
        """Have no more steps."""
        self._turns.end(self._name)

    def sizes(self, folder: str) -> dict[str, int]:
        self.step()
        return super().sizes(folder)

    def names(self, folder: str) -> list[str]:
        self.step()
        return super().names(folder)

    def size(self, file: str) -> int | None:
        self.step()
        return super().size(file)

    def read(self, file: str) -> str:
        self.step()
        return super().read(file)


class VolatileFiles(LocalFiles):
    """A disk as a power failure leaves it: new names are there after a sync, and what was removed is gone at once.

    `durable` is what is on it, path → text; it belongs to the disk, and outlives this object. A file that was renamed has
    its old name until the new one is synced, and none where the old one's folder was removed meanwhile.
    """

    def __init__(self, durable: dict[str, str], *, dies_at: int | None = None) -> None:
        super().__init__(dies_at=dies_at)
        self.durable = durable
        self._renamed: dict[str, str] = {}

    def rename(self, source: str, target: str) -> None:
        super().rename(source, target)
        self._renamed[target] = source

    def sync(self, files: Sequence[str]) -> None:
        super().sync(files)
        for each in files:
            self.durable[each] = self.read(each)
            self.durable.pop(self._renamed.pop(each, ""), None)

    def delete(self, path: str) -> None:
        super().delete(path)
        for each in [each for each in self.durable if each == path or each.startswith(path + "/")]:
            del self.durable[each]

    def lose_power(self, folder: Path) -> None:
        """Leave of a folder what is durable."""
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in self.durable.items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_text(text)
