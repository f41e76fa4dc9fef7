"""`Files` on this machine's disk, that can die at any operation: what a crash leaves behind, step by step."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

__all__ = ["DiedError", "LocalFiles"]


class DiedError(BaseException):
    """The process has ended here."""


class LocalFiles:
    """Addresses are plain paths. `dies_at` is the operation that changes something and is the last one begun.

    With `torn` that operation has begun to write, and was broken off in the middle.
    """

    def __init__(self, *, dies_at: int | None = None, torn: bool = False) -> None:
        self.dies_at, self.torn = dies_at, torn
        self.changes = 0

    def _step(self) -> bool:
        """Count an operation; true where it is the one that is broken off."""
        self.changes += 1
        if self.dies_at is not None and self.changes >= self.dies_at:
            if self.changes > self.dies_at or not self.torn:
                raise DiedError
            return True
        return False

    def sizes(self, folder: str) -> dict[str, int]:
        return {str(path): path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()}

    def names(self, folder: str) -> list[str]:
        return sorted(os.listdir(folder)) if Path(folder).is_dir() else []

    def size(self, file: str) -> int | None:
        return Path(file).stat().st_size if Path(file).is_file() else None

    def read(self, file: str) -> str:
        return Path(file).read_text()

    def create(self, file: str, text: str) -> None:
        broken = self._step()
        Path(file).parent.mkdir(parents=True, exist_ok=True)
        with Path(file).open("x") as out:
            out.write(text[: len(text) // 2] if broken else text)
        if broken:
            raise DiedError

    def rename(self, source: str, target: str) -> None:
        broken = self._step()
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        if broken:
            raise DiedError
        Path(source).rename(target)

    def delete(self, path: str) -> None:
        broken = self._step()
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
