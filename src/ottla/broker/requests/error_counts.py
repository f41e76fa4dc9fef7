"""Which errors an answer carries, wherever in it they stand: for the metrics, and for who asked the wrong node."""

from __future__ import annotations

from ottla.base import ErrorCode
from ottla.wire import Message

__all__ = ["count_errors", "has_moved"]

NOT_HERE = (int(ErrorCode.NOT_CONTROLLER), int(ErrorCode.NOT_LEADER_OR_FOLLOWER))

Path = tuple[str, ...]
"""Names of fields, the last of which is an error code; those before are lists or structures."""


def count_errors(counts: dict[int, int], answer: Message) -> None:
    """Add an answer's error codes, without those that say that all is well."""
    kind = type(answer)
    paths = _PATHS.get(kind)
    if paths is None:
        paths = _PATHS[kind] = _paths(kind)
    for path in paths:
        _count(counts, answer, path, 0)


def has_moved(response: Message) -> bool:
    """Return whether a response says, anywhere in it, that the node which gave it is not the active controller."""
    counts: dict[int, int] = {}
    count_errors(counts, response)
    return any(code in counts for code in NOT_HERE)


_PATHS: dict[type[Message], tuple[Path, ...]] = {}


def _paths(message: type[Message]) -> tuple[Path, ...]:
    """Return where error codes stand in a kind of message."""
    found: list[Path] = []
    for each in message.FIELDS:
        if each.name == "error_code":
            found.append((each.name,))
        elif each.struct is not None:
            found += [(each.name, *rest) for rest in _paths(each.struct)]
    return tuple(found)


def _count(counts: dict[int, int], value: object, path: Path, at: int) -> None:
    found = getattr(value, path[at])
    if at == len(path) - 1:
        if found:
            counts[found] = counts.get(found, 0) + 1
    elif isinstance(found, Message):
        _count(counts, found, path, at + 1)
    elif found:
        for each in found:
            _count(counts, each, path, at + 1)
