"""What workers say to each other in JoinGroup and SyncGroup: Connect's embedded protocol, versions 0, 1 and 2.

Version 0 (`default`) moves everything at each rebalance. From version 1 (`compatible`, KIP-415) on a worker also says what
it has, and is told what it has to give up and when to come back. Version 2 (`sessioned`, KIP-507) looks the same, and means
that workers sign what they ask of each other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import IntEnum
from struct import Struct, error

from ottla.connect.errors import DataError
from ottla.connect.storage import TaskId

__all__ = [
    "CONFIG_MISMATCH",
    "Assignment",
    "GroupProtocol",
    "WorkerState",
    "decode_assignment",
    "decode_worker_state",
    "encode_assignment",
    "encode_worker_state",
]

CONFIG_MISMATCH = 1
"""An assignment's error where the leader has read less of the configuration topic than another worker."""
_CONNECTOR = -1
"""In the place of a task's number: the connector itself."""
_INT16, _INT32, _INT64 = Struct(">h"), Struct(">i"), Struct(">q")


class GroupProtocol(IntEnum):
    """A version of the embedded protocol."""

    EAGER = 0
    COMPATIBLE = 1
    SESSIONED = 2

    @property
    def group_name(self) -> str:
        """The name under which it is offered to the coordinator."""
        return ("default", "compatible", "sessioned")[self]

    @classmethod
    def of_group_name(cls, name: str) -> GroupProtocol:
        """Return the version that a coordinator has chosen; raises DataError for another name."""
        for each in cls:
            if each.group_name == name:
                return each
        raise DataError(f"Unknown Connect group protocol: {name}")

    @classmethod
    def offered(cls, setting: str) -> list[GroupProtocol]:
        """Return what a worker offers under `connect.protocol`, the preferred first; raises DataError."""
        words = {"eager": cls.EAGER, "compatible": cls.COMPATIBLE, "sessioned": cls.SESSIONED}
        highest = words.get(setting.lower())
        if highest is None:
            raise DataError(f"connect.protocol is {setting}; {', '.join(words)} are known")
        return [each for each in sorted(cls, reverse=True) if each <= highest]


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a worker has to do; with version 1 and 2 what comes to what it has, and what it has to give up."""

    leader: str
    leader_url: str
    offset: int
    """Up to where the leader had read the configuration topic."""

    connectors: tuple[str, ...] = ()
    tasks: tuple[TaskId, ...] = ()
    revoked_connectors: tuple[str, ...] = ()
    revoked_tasks: tuple[TaskId, ...] = ()
    delay_ms: int = 0
    """When to join again, because work may be lost and its worker may come back; 0 for no such plan."""

    error: int = 0

    @property
    def failed(self) -> bool:
        """Whether the leader could not divide the work."""
        return self.error != 0


@dataclass(frozen=True, slots=True)
class WorkerState:
    """What a worker says of itself when it joins."""

    url: str
    offset: int
    """Up to where it has read the configuration topic."""

    assignment: Assignment | None = None
    """What it has, None for nothing."""


def encode_worker_state(state: WorkerState, version: GroupProtocol) -> bytes:
    """Return the metadata of a JoinGroup."""
    head = _INT16.pack(version) + _text(state.url) + _INT64.pack(state.offset)
    if version is GroupProtocol.EAGER:
        return head
    if state.assignment is None:
        return head + _INT32.pack(-1)
    held = encode_assignment(state.assignment, version)
    return head + _INT32.pack(len(held)) + held


def decode_worker_state(data: bytes) -> WorkerState:
    """Return what a JoinGroup's metadata says; raises DataError."""
    reader = _Reader(data)
    reader.version()
    url, offset = reader.text(), reader.number(_INT64)
    held = reader.blob() if reader.more else None
    return WorkerState(url, offset, decode_assignment(held) if held is not None else None)


def encode_assignment(assignment: Assignment, version: GroupProtocol) -> bytes:
    """Return the assignment of a SyncGroup."""
    head = (
        _INT16.pack(version)
        + _INT16.pack(assignment.error)
        + _text(assignment.leader)
        + _text(assignment.leader_url)
        + _INT64.pack(assignment.offset)
    )
    given = _work(assignment.connectors, assignment.tasks)
    if version is GroupProtocol.EAGER:
        return head + given
    revoked = _work(assignment.revoked_connectors, assignment.revoked_tasks)
    return head + given + revoked + _INT32.pack(assignment.delay_ms)


def decode_assignment(data: bytes) -> Assignment | None:
    """Return what a SyncGroup's assignment says, None where it is empty; raises DataError."""
    if not data:
        return None
    reader = _Reader(data)
    reader.version()
    failed = reader.number(_INT16)
    leader, url, offset = reader.text(), reader.text(), reader.number(_INT64)
    connectors, tasks = reader.work() if reader.more else ((), ())
    revoked_connectors, revoked_tasks = reader.work() if reader.more else ((), ())
    delay = reader.number(_INT32) if reader.more else 0
    return Assignment(leader, url, offset, connectors, tasks, revoked_connectors, revoked_tasks, delay, failed)


def _text(value: str) -> bytes:
    data = value.encode()
    return _INT16.pack(len(data)) + data


def _work(connectors: Iterable[str], tasks: Iterable[TaskId]) -> bytes:
    """Return an array of connectors with their tasks' numbers."""
    numbers: dict[str, list[int]] = {name: [_CONNECTOR] for name in connectors}
    for task in tasks:
        numbers.setdefault(task.connector, []).append(task.task)
    parts = [_INT32.pack(len(numbers))]
    for name, found in numbers.items():
        parts += [_text(name), _INT32.pack(len(found)), *(_INT32.pack(each) for each in found)]
    return b"".join(parts)


class _Reader:
    """Kafka's plain types, one behind another."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0

    @property
    def more(self) -> bool:
        return self._at < len(self._data)

    def version(self) -> None:
        if self.number(_INT16) < 0:
            raise DataError("Unsupported version of Connect's group protocol")

    def number(self, form: Struct) -> int:
        try:
            found = int(form.unpack_from(self._data, self._at)[0])
        except error as short:
            raise DataError("Connect's group metadata ends too early") from short
        self._at += form.size
        return found

    def _take(self, size: int) -> bytes:
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise DataError("Connect's group metadata ends too early")
        found, self._at = self._data[self._at : end], end
        return found

    def text(self) -> str:
        try:
            return self._take(self.number(_INT16)).decode()
        except UnicodeDecodeError as wrong:
            raise DataError("Connect's group metadata holds a name that is not UTF-8") from wrong

    def blob(self) -> bytes | None:
        size = self.number(_INT32)
        return None if size < 0 else self._take(size)

    def work(self) -> tuple[tuple[str, ...], tuple[TaskId, ...]]:
        connectors: list[str] = []
        tasks: list[TaskId] = []
        for _ in range(self.number(_INT32)):
            name = self.text()
            for _ in range(self.number(_INT32)):
                number = self.number(_INT32)
                if number == _CONNECTOR:
                    connectors.append(name)
                else:
                    tasks.append(TaskId(name, number))
        return tuple(connectors), tuple(tasks)
