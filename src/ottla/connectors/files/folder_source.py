"""FolderSource: follows the files of folders and patterns, through rotation, truncation and compression, into a topic.

Every log has a source partition of its own, `{"log": path}`; its offset says how far each of the log's files was read.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import socket
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, ClassVar

from ottla.background import supervise_thread
from ottla.connect import (
    STOCK_VERSION,
    ConfigDef,
    ConfigValue,
    ConnectError,
    Header,
    SchemaBuilder,
    SourceColumns,
    SourceConnector,
    SourceRecord,
    SourceState,
    SourceTask,
    Struct,
    data,
)
from ottla.connectors.files.content import UnreadableError
from ottla.connectors.files.folder_config import (
    CONFIG_DEF,
    COUNT,
    NUMBER,
    SALT,
    settings_of,
    validated,
)
from ottla.connectors.files.followed import FollowedFile, Piece
from ottla.connectors.files.followed_log import FollowedLog
from ottla.connectors.files.marks import Mark, marks_of, partition_of

__all__ = ["FolderSourceConnector", "FolderSourceTask"]

log = logging.getLogger(__name__)

POLL_BYTES_MAX = 4 << 20
"""How much one poll returns at most, about; it may come from many logs."""

SALTS = 200
"""How many ways of spreading logs over tasks are tried for an even one."""


class FolderSourceTask(SourceTask):
    """Follows those of the connector's logs that are its own."""

    wait_s = 1.0
    """How long one poll waits for something new."""

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._polls = threading.Lock()
        self._logs: dict[str, FollowedLog] = {}
        self._turn = 0
        self._scanned = self._settled = float("-inf")
        self._first = True
        self._unreadable: dict[str, str] = {}

    def start(self, props: Mapping[str, str]) -> None:
        """Take the settings; raises ConfigError."""
        self._settings = settings_of(props)
        self._host = socket.gethostname()
        self._schema = _schema(self._settings.fields)

    def poll(self) -> list[Any] | None:
        """Return what the logs have, each in its turn; None after a second without anything."""
        try:
            with self._polls:
                return self._poll()
        finally:
            self._close_if_stopped()

    def _poll(self) -> list[Any] | None:
        deadline = time.monotonic() + self.wait_s
        while not self._stopping.is_set():
            now = time.monotonic()
            if now - self._scanned >= self._settings.scan:
                self._scan(now)
            found = self._read(now)
            if found:
                return found
            if now >= deadline:
                break
            self._stopping.wait(self._settings.poll)
        return None

    def source_state(self) -> SourceState:
        """Return how many logs it follows, and which cannot be read."""
        unreadable = [f"the log {path} is not read on, and others are: {why}" for path, why in self._unreadable.items()]
        return SourceState({"logs": len(self._logs)}, warnings=unreadable)

    def stop(self) -> None:
        """End a poll that waits, and close the files: at once where none runs, or behind the one that does."""
        self._stopping.set()
        self._close_if_stopped()

    def _close_if_stopped(self) -> None:
        if self._stopping.is_set() and self._polls.acquire(blocking=False):
            try:
                for each in self._logs.values():
                    each.close()
                self._logs.clear()
            finally:
                self._polls.release()

    # Logs and their files

    def _scan(self, now: float) -> None:
        """Look for files, and settle what is finished."""
        settings = self._settings
        for path, files in settings.names.logs(self._logs).items():
            followed, at_end = self._logs.get(path), False
            if followed is None:
                if not any(each.selected for each in files) or not self._own(path):
                    continue
                marks = marks_of(self.context.offset(partition_of(path)))
                followed = self._logs[path] = FollowedLog(path, settings.following, marks, now)
                at_end = settings.at_end and self._first and not marks
            with self._apart(path):
                followed.scanned(files, now, at_end=at_end)
            if followed.idle:
                del self._logs[path]
        self._first, self._scanned = False, now
        if settings.policy != "keep":
            self._settle()

    def _own(self, path: str) -> bool:
        return _share(path, self._settings.salt, self._settings.count) == self._settings.number

    def _read(self, now: float) -> list[Any]:
        """Return the next records of all logs that have some, beginning with another one each time."""
        found: list[Any] = []
        size = 0
        logs = list(self._logs.values())
        if not logs:
            return found
        self._turn = (self._turn + 1) % len(logs)
        for followed in logs[self._turn :] + logs[: self._turn]:
            piece = self._next(followed, now)
            if piece is not None:
                found += self._made(followed, piece)
                size += piece.after.position - piece.before.position
                if size >= POLL_BYTES_MAX:
                    break
        return found

    def _next(self, followed: FollowedLog, now: float) -> Piece | None:
        piece: Piece | None = None
        with self._apart(followed.path):
            piece = followed.poll(now)
            if piece is None and followed.restless:
                files = self._settings.names.logs([followed.path])[followed.path]
                followed.scanned(files, now)
                piece = followed.poll(now)
        return piece

    @contextmanager
    def _apart(self, path: str) -> Iterator[None]:
        """Keep a log with a file that cannot be opened from ending the others; it is told in the log once, and waits."""
        try:
            yield
            self._unreadable.pop(path, None)
        except UnreadableError as error:
            if self._unreadable.get(path) != str(error):
                log.error("The log %s is not read on, and others are: %s", path, error)
            self._unreadable[path] = str(error)

    # Records

    def _made(self, followed: FollowedLog, piece: Piece) -> Iterable[SourceColumns | SourceRecord]:
        settings = self._settings
        partition = partition_of(followed.path)
        now_ms = int(time.time() * 1000)
        offset = followed.offset(piece.after)
        if not (settings.fields or settings.headers or settings.key != "none"):
            return [
                SourceColumns(
                    topic=settings.topic,
                    values=piece.rows.array(),
                    schema=data.STRING,
                    source_partition=partition,
                    source_offset=offset,
                    timestamp=now_ms,
                )
            ]
        return [
            self._record(followed, piece, index, text, partition, offset, now_ms)
            for index, text in enumerate(piece.rows.values())
        ]

    def _record(
        self,
        followed: FollowedLog,
        piece: Piece,
        index: int,
        text: str,
        partition: Mapping[str, Any],
        offset: Mapping[str, Any],
        now_ms: int,
    ) -> SourceRecord:
        settings = self._settings
        about = self._about(followed, piece, index) if settings.fields or settings.headers else {}
        key = self._key(followed, piece, text)
        value: Any = text
        if self._schema is not None:
            value = Struct(self._schema)
            value.put("message", text)
            for name in settings.fields:
                value.put(name, about[name])
        return SourceRecord(
            topic=settings.topic,
            key_schema=None if settings.key == "none" else data.OPTIONAL_STRING,
            key=key,
            value_schema=data.STRING if self._schema is None else self._schema,
            value=value,
            timestamp=now_ms,
            headers=tuple(Header(f"file.{name}", about[name], _SCHEMAS[name]) for name in settings.headers),
            source_partition=partition,
            source_offset={**offset, **_flat(piece.mark(index))},
        )

    def _about(self, followed: FollowedLog, piece: Piece, index: int) -> dict[str, Any]:
        return {
            "path": piece.path,
            "name": os.path.basename(piece.path),
            "log": followed.path,
            "line": piece.line(index),
            "position": piece.position(index),
            "host": self._host,
        }

    def _key(self, followed: FollowedLog, piece: Piece, text: str) -> str | None:
        match self._settings.key:
            case "path":
                return piece.path
            case "name":
                return os.path.basename(piece.path)
            case "log":
                return followed.path
            case "pattern":
                assert self._settings.key_pattern is not None
                found = self._settings.key_pattern.search(text)
                return None if found is None else found.group(1 if found.re.groups else 0)
        return None

    # Finished files

    def _settle(self) -> None:
        """Delete or move finished files whose last record is stored, with its offset."""
        for path, followed in list(self._logs.items()):
            finished = followed.finished(time.time(), self._settings.finished_after)
            if not finished:
                continue
            stored = {each.inode: each for each in marks_of(self.context.offset(partition_of(path)))}
            for file in finished:
                mark = stored.get(file.mark.inode, Mark(file.mark.inode))
                if mark.position == file.mark.position and self._remove(file):
                    followed.forget(file)

    def _remove(self, file: FollowedFile) -> bool:
        """Delete or move a file, if it is still the one that was read; return whether that was done."""
        path = file.path
        assert path is not None
        try:
            about = os.stat(path, follow_symlinks=False)
            if (f"{about.st_dev}:{about.st_ino}", about.st_size) != (file.found.inode, file.found.size):
                return False
            if self._settings.policy == "delete":
                os.unlink(path)
                log.info("%s was read to its end and is deleted", path)
            else:
                assert self._settings.finished_folder is not None
                target = _free(os.path.join(self._settings.finished_folder, os.path.basename(path)))
                shutil.move(path, target)
                log.info("%s was read to its end and is moved to %s", path, target)
        except FileNotFoundError:
            return False
        except OSError as error:
            raise ConnectError(f"file {path} was read, but cannot be removed: {error.strerror}") from error
        return True


_SCHEMAS = {
    **dict.fromkeys(("path", "name", "log", "host"), data.STRING),
    **dict.fromkeys(("line", "position"), data.INT64),
}


def _schema(fields: Sequence[str]) -> Any:
    """Return the value's schema, None where it is the text alone."""
    if not fields:
        return None
    made = SchemaBuilder.struct().name("ottla.connectors.files.Line").field("message", data.STRING)
    for name in fields:
        made = made.field(name, _SCHEMAS[name])
    return made.build()


def _flat(mark: Mark) -> dict[str, Any]:
    return {"position": mark.position, "line": mark.line, "head": mark.head, "tail": mark.tail}


def _free(path: str) -> str:
    """Return a path that nobody has."""
    tried, number = path, 0
    while os.path.exists(tried):
        number += 1
        tried = f"{path}.{number}"
    return tried


def _share(path: str, salt: int, count: int) -> int:
    """Return which of so many tasks follows a log."""
    digest = hashlib.blake2b(f"{salt}:{path}".encode(errors="surrogateescape"), digest_size=4).digest()
    return int.from_bytes(digest, "big") % count


class FolderSourceConnector(SourceConnector):
    """Follows log files in folders, each line once and in order, whatever rotation does to them."""

    version: ClassVar[str] = STOCK_VERSION
    task_class: ClassVar[type[Any]] = FolderSourceTask
    config_def: ClassVar[ConfigDef] = CONFIG_DEF

    def __init__(self) -> None:
        self._stopping = threading.Event()
        self._watch: threading.Thread | None = None
        self._given = 0

    def start(self, props: Mapping[str, str]) -> None:
        """Hold the configuration against its keys; raises ConfigError."""
        super().start(props)
        self._settings = settings_of(props)

    def stop(self) -> None:
        """End the watch for new logs."""
        self._stopping.set()
        if self._watch is not None:
            self._watch.join()

    def validate(self, props: Mapping[str, str | None]) -> dict[str, ConfigValue]:
        """Return what is wrong with each key, and between them."""
        return validated(props)

    def task_configs(self, tasks_max: int) -> Sequence[Mapping[str, str]]:
        """Return a configuration for each task: as many as there are logs now, and at least one."""
        logs = self._logs()
        count = max(1, min(tasks_max, len(logs)))
        salt = _even(logs, count)
        if count < tasks_max and self._watch is None:
            self._watch = supervise_thread(
                partial(self._wait_for_more, tasks_max),
                name="folder-source-logs",
                serves="a connector",
                failed=lambda error: self.context.raise_error(error),
            )
        self._given = count
        return [{**self.props, NUMBER: str(number), COUNT: str(count), SALT: str(salt)} for number in range(count)]

    def _logs(self) -> list[str]:
        found = self._settings.names.logs()
        return [path for path, files in found.items() if any(each.selected for each in files)]

    def _wait_for_more(self, tasks_max: int) -> None:
        """Ask for more tasks where more logs have appeared than there are tasks."""
        while not self._stopping.wait(max(self._settings.scan, 1.0) * 5):
            if self._given < min(tasks_max, len(self._logs())):
                self.context.request_task_reconfiguration()

    def exactly_once_support(self, props: Mapping[str, str]) -> bool:
        """Return True: every record's offset says where each file goes on."""
        return True

    def alter_offsets(
        self, props: Mapping[str, str], offsets: Sequence[tuple[Mapping[str, Any], Mapping[str, Any] | None]]
    ) -> bool:
        """Refuse what is no position in a log; anything may be forgotten."""
        for partition, offset in offsets:
            if offset is None:
                continue
            if not partition or not isinstance(partition.get("log"), str):
                raise ConnectError("a source partition is the path of a log, under the key 'log'")
            if not marks_of(offset):
                raise ConnectError("an offset needs the key 'position'; null forgets the log")
        return True


def _even(logs: Sequence[str], count: int) -> int:
    """Return the salt that spreads these logs best."""

    def largest(salt: int) -> int:
        shares = [0] * count
        for each in logs:
            shares[_share(each, salt, count)] += 1
        return max(shares)

    if count == 1 or len(logs) > SALTS * count:
        return 0
    return min(range(SALTS), key=largest)
