"""What the sources of readers and writers share: lines of Python, a function per struct, and the constants they name."""

from __future__ import annotations

from typing import Any

from ottla.wire.message import Message

__all__ = ["CodecSource", "in_range"]


def in_range(version: int, versions: tuple[int, int] | None) -> bool:
    """Return whether a version lies in a field's range."""
    return versions is not None and versions[0] <= version <= versions[1]


class CodecSource:
    """Collects lines; every struct becomes one function, numbered in the order of discovery."""

    def __init__(self, cls: type[Message], version: int) -> None:
        self._version = version
        self._flexible = in_range(version, cls.FLEXIBLE)
        self._numbers: dict[type[Message], int] = {cls: 0}
        self._queue = [cls]
        self._lines: list[str] = []
        self._constants: dict[str, Any] = {}

    def finished(self) -> tuple[str, dict[str, Any]]:
        """Return the source of every function, and the constants that it names."""
        for struct in self._queue:  # grows while structs are found
            self._struct(struct)
        return "\n".join(self._lines) + "\n", self._constants

    def _add(self, depth: int, *lines: str) -> None:
        self._lines += ["    " * depth + line for line in lines]

    def _number(self, struct: type[Message]) -> int:
        if struct not in self._numbers:
            self._numbers[struct] = len(self._numbers)
            self._queue.append(struct)
        return self._numbers[struct]

    def _constant(self, name: str, value: Any) -> str:
        self._constants[name] = value
        return name

    def _struct(self, struct: type[Message]) -> None:
        raise NotImplementedError
