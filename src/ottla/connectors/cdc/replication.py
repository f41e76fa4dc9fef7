"""The replication stream of one slot, over libpq (`psycopg`'s `PGconn`): `START_REPLICATION`, data, status updates."""

from __future__ import annotations

import select
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from struct import Struct
from typing import TYPE_CHECKING, Any, Final

from ottla.connect import ConnectError
from ottla.connectors.cdc.pgoutput import EPOCH_US
from ottla.connectors.cdc.sessions import PINNED, as_options

if TYPE_CHECKING:
    from psycopg.pq.abc import PGconn, PGresult

__all__ = [
    "Keepalive",
    "ReplicationStream",
    "ServerAwayError",
    "ServerLacksError",
    "ServerRefusesError",
    "ServerSaysError",
    "UnconvertibleError",
    "asking_error",
    "connecting_error",
    "conninfo_of",
    "is_of_the_table",
    "is_ready",
    "literal",
    "lsn_of",
    "lsn_text",
    "quoted",
    "sqlstate_of",
    "stream_error",
]

_XLOG_DATA: Final = ord("w")
_DATA, _ALIVE, _STATUS = Struct(">QQq"), Struct(">QqB"), Struct(">cQQQqB")
LOOK_SECONDS: Final = 0.2
"""Between two looks whether to stop, while nothing comes."""
_AWAY: Final = ("08", "40", "53300", "57P", "57014")
"""What the codes begin with of errors that pass by themselves: connections, others' transactions, too many clients, an
administrator's restart, and a statement that was cancelled."""
_CROWDED: Final = ("too many clients", "too many connections", "connection slots are reserved")
"""What a server says that has too many connections, in English: libpq gives no code of a connection that was refused."""
_LACKS: Final = "53"
_MAKE_ROOM: Final = {
    "53100": "The server's disk is full: make room on it",
    "53200": "Each table that is read at once needs a lock, and so does each part of one: set max_locks_per_transaction "
    "higher (the server has to be restarted), or read fewer tables at once. If memory is short, give the server more",
    "53400": "A limit in the server's configuration is reached: set it higher, or remove what counts against it, as slots "
    "that nobody reads (max_replication_slots)",
}
"""What an operator has to do where the server lacks something, by SQLSTATE."""
_IN_USE: Final = "55006"
_UNCONVERTIBLE: Final = ("22P05", "22021")
"""A character that the client's encoding has not, and bytes that are none of it."""
_OF_THE_TABLE: Final = ("22", "54", "XX")
"""What the codes begin with of errors of a table's own: values and rows that the server cannot print, and broken files."""
_WHAT_TO_DO: Final = {
    "42704": ". What was dropped is missing for all changes before it is made again, too: make it again, drop the slot, and "
    "reset the connector's offsets to read the tables anew",
}
READ_BYTES_MAX: Final = 16 << 20
"""Messages that are taken at once are no more than these bytes, but for one that is larger itself."""
ENDING_SECONDS: Final = 1.0
"""Between two looks whether a server that asks for an answer is being shut down."""


@dataclass(frozen=True, slots=True)
class Keepalive:
    """The server has sent everything up to `wal_end` that the slot is for."""

    wal_end: int


def lsn_text(lsn: int) -> str:
    """Return a place in the log as PostgreSQL writes it."""
    return f"{lsn >> 32:X}/{lsn & 0xFFFFFFFF:X}"


def lsn_of(text: str) -> int:
    """Return a place in the log that PostgreSQL wrote."""
    high, _, low = text.partition("/")
    return int(high, 16) << 32 | int(low, 16)


def quoted(name: str) -> str:
    """Return an identifier in quotes."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def is_ready(number: int, events: int, wait_s: float) -> bool:
    """Return whether a socket can be read or written by now; `poll`, since `select` takes no numbers beyond 1,023."""
    poll = select.poll()
    poll.register(number, events)
    return bool(poll.poll(wait_s * 1000))


class ServerAwayError(ConnectError):
    """The server has gone away, and may come back; `code` is its SQLSTATE, None where it gave none."""

    def __init__(self, words: str, code: str | None = None) -> None:
        super().__init__(words)
        self.code = code


class ServerRefusesError(ServerAwayError):
    """The server is there, and does not take the connection: who is tried again for ever would never be heard of."""


class ServerLacksError(ServerAwayError):
    """The server is there, and lacks what was asked of it: locks, memory, disk. Somebody has to see to that."""


class ServerSaysError(ConnectError):
    """The server has refused what it was asked; `code` is its SQLSTATE, None where it gave none."""

    def __init__(self, words: str, code: str | None) -> None:
        super().__init__(words)
        self.code = code


class UnconvertibleError(ConnectError):
    """The stream has ended at a text that the server cannot send as UTF-8."""


def is_of_the_table(error: ServerSaysError) -> bool:
    """Whether what was asked is right, and a table has what the server cannot print."""
    return error.code is not None and error.code.startswith(_OF_THE_TABLE)


def asking_error(words: str, code: str | None, *, is_lost: bool) -> ServerAwayError | ServerSaysError:
    """Return the error of what was asked, by its SQLSTATE; `is_lost` where the connection is gone."""
    if is_lost or (code is not None and code.startswith(_AWAY)):
        return ServerAwayError(words, code)
    if code is not None and code.startswith(_LACKS):
        return ServerLacksError(f"{words.rstrip('.')}. {_MAKE_ROOM.get(code, 'See what the server lacks')}", code)
    return ServerSaysError(words, code)


def sqlstate_of(result: PGresult) -> str | None:
    """Return the code of a result's error, None where it has none: the server has not said anything."""
    from psycopg import pq

    found = result.error_field(pq.DiagnosticField.SQLSTATE)
    return None if found is None else found.decode()


def stream_error(words: str, code: str | None) -> ConnectError:
    """Return the error of a stream that has ended: one that passes, or one that somebody has to do something about."""
    if code == _IN_USE:  # of a reader who has hung up, which the server notices a little later
        return ServerAwayError(words, code)
    found = asking_error(words, code, is_lost=code is None)
    if isinstance(found, ServerAwayError):
        return found
    if code in _UNCONVERTIBLE:
        return UnconvertibleError(f"{words} ({code})")
    return ConnectError(f"{words} ({code}){_WHAT_TO_DO.get(code or '', '')}")


def connecting_error(words: str, conninfo: bytes) -> ServerAwayError:
    """Return the error of a connection that cannot be opened: is a server there at all, that takes others?"""
    from psycopg import pq

    is_there = pq.PGconn.ping(conninfo) == pq.Ping.OK and not any(each in words for each in _CROWDED)
    return (ServerRefusesError if is_there else ServerAwayError)(words)


class ReplicationStream:
    """Reads a slot from a place on; `read` gives what has come, `confirm` says what is stored elsewhere.

    Raises ConnectError in the server's words.
    """

    def __init__(self, conninfo: bytes, status_interval_s: float, stopping: threading.Event) -> None:
        """`stopping` ends a `read` that waits."""
        from psycopg import pq

        self._pq, self._conninfo = pq, conninfo
        self._status_interval_s, self._stopping = status_interval_s, stopping
        self._connection: PGconn = pq.PGconn.connect(conninfo)
        if self._connection.status != pq.ConnStatus.OK:
            words = self._connection.error_message.decode(errors="replace").strip()
            self._connection.finish()
            raise connecting_error(f"The replication connection cannot be opened: {words}", conninfo)
        self._failure: ConnectError | None = None
        """Why nothing more comes."""
        self._confirmed = self._received = 0
        self._told_at_s = self._looked_at_s = 0.0
        self._heard_at_s = self._read_at_s = time.monotonic()

    def start(self, slot: str, lsn: int, options: Mapping[str, str]) -> None:
        """Begin behind what was confirmed, or at a place further on."""
        given = ", ".join(f"{quoted(name)} {literal(value)}" for name, value in options.items())
        command = f"START_REPLICATION SLOT {quoted(slot)} LOGICAL {lsn_text(lsn)} ({given})"
        result = self._connection.exec_(command.encode())
        if result.status != self._pq.ExecStatus.COPY_BOTH:
            words = result.error_message.decode(errors="replace").strip()
            raise stream_error(f"Slot {slot} cannot be read: {words}", sqlstate_of(result))
        self._confirmed = self._received = lsn
        self._connection.nonblocking = 1

    def read(self, most: int, wait_s: float) -> list[bytes | Keepalive]:
        """Return what has come, up to so many messages; waits so long where nothing has. Raises ServerAwayError.

        A message of the output plugin is given whole, behind the 25 bytes that `XLogData` has before it. What comes while
        it reads is taken along, since a poll costs more than a message.
        """
        from psycopg import OperationalError

        try:
            return self._read(most, wait_s)
        except OperationalError as error:
            raise ServerAwayError(f"The replication stream is broken: {error}") from error

    def _read(self, most: int, wait_s: float) -> list[bytes | Keepalive]:
        if self._failure is not None:
            raise self._failure
        found: list[bytes | Keepalive] = []
        until_s = time.monotonic() + wait_s
        get = self._connection.get_copy_data
        left = READ_BYTES_MAX
        while len(found) < most and left > 0 and not self._stopping.is_set():
            for _ in range(most - len(found)):  # a row each: the innermost loop of all
                size, data = get(1)
                if size <= 0:
                    break
                message = bytes(data)
                left -= size
                if message[0] == _XLOG_DATA:
                    found.append(message)
                    if left <= 0:
                        break
                else:
                    self._take_keepalive(message, found)
            if size > 0:
                continue
            if size < 0:
                self._failure = self._ended()
                if not found:
                    raise self._failure
                break  # what has come is told first
            self._tell_status(now=False, asks=True)
            left_s = 0.0 if found else until_s - time.monotonic()
            if not found and left_s <= 0:
                break
            wait_s = min(left_s, self._status_interval_s, LOOK_SECONDS)
            if is_ready(self._connection.socket, select.POLLIN, wait_s):
                self._connection.consume_input()
            elif found:
                break
        self._read_at_s = time.monotonic()
        if found:
            self._heard_at_s = self._read_at_s
        last = next((each for each in reversed(found) if isinstance(each, bytes)), None)
        if last is not None:
            begin, end, _ = _DATA.unpack_from(last, 1)
            self._received = max(self._received, begin, end)
        return found

    def _take_keepalive(self, data: bytes, found: list[bytes | Keepalive]) -> None:
        if data[:1] == b"k":
            end, _, wants_reply = _ALIVE.unpack_from(data, 1)
            self._received = max(self._received, end)
            found.append(Keepalive(end))
            if wants_reply:
                self._tell_status(now=True)
                self._hang_up_where_it_ends()

    def _hang_up_where_it_ends(self) -> None:
        """Have nothing more come of a server that is being shut down, which waits until its readers have hung up.

        It waits for who has confirmed everything, too, and what is of no published table is never confirmed.
        """
        if (at_s := time.monotonic()) < self._looked_at_s + ENDING_SECONDS:
            return
        self._looked_at_s = at_s
        if self._pq.PGconn.ping(self._conninfo) == self._pq.Ping.REJECT:
            self._failure = ServerAwayError("The server is being shut down")

    @property
    def silent_s(self) -> float:
        """For how many seconds nothing had come when it was read last. The server answers each status update."""
        return self._read_at_s - self._heard_at_s

    @property
    def server_lsn(self) -> int:
        """How far the server's log went when it sent last, as an LSN's number."""
        return self._received

    def confirm(self, lsn: int) -> None:
        """Say that nothing before a place is wanted again: the server may remove it."""
        from psycopg import OperationalError

        if lsn > self._confirmed:
            self._confirmed = lsn
            with suppress(OperationalError):  # a stream that has ended says why when it is read
                self._tell_status(now=True)

    def ask(self) -> None:
        """Have the server say how far it has sent, which it does by itself at times. Raises ServerAwayError."""
        from psycopg import OperationalError

        try:
            self._tell_status(now=True, asks=True)
        except OperationalError as error:
            raise ServerAwayError(f"The replication stream is broken: {error}") from error

    def _tell_status(self, *, now: bool, asks: bool = False) -> None:
        """Tell where reading is, at times: who says nothing for long is given up by the server."""
        at_s = time.monotonic()
        if not now and at_s < self._told_at_s + self._status_interval_s:
            return
        self._told_at_s = at_s
        clock = time.time_ns() // 1000 - EPOCH_US
        self._connection.put_copy_data(
            _STATUS.pack(b"r", self._received, self._confirmed, self._confirmed, clock, asks)
        )
        deadline_s = at_s + 10.0
        while self._connection.flush() and time.monotonic() < deadline_s:
            is_ready(self._connection.socket, select.POLLOUT, 1.0)

    def _ended(self) -> ConnectError:
        """Return why the stream is over, in the server's words."""
        words = self._connection.error_message.decode(errors="replace").strip()
        result = self._connection.get_result()
        code = None if result is None else sqlstate_of(result)
        words = words or (result.error_message.decode(errors="replace").strip() if result is not None else "")
        return stream_error(f"The replication stream has ended{f': {words}' if words else ''}", code)

    def switched_from(self, timeline: int, now: int) -> int | None:
        """Return where the server's timeline `now` has left an earlier one, None where it does not come from that."""
        result = self._connection.exec_(f"TIMELINE_HISTORY {now}".encode())
        if result.status != self._pq.ExecStatus.TUPLES_OK:
            words = result.error_message.decode(errors="replace").strip()
            raise stream_error(f"The history of timeline {now} cannot be read: {words}", sqlstate_of(result))
        for line in (result.get_value(0, 1) or b"").decode(errors="replace").splitlines():
            parts = line.split()
            if len(parts) >= 2 and parts[0] == str(timeline):
                return lsn_of(parts[1])
        return None

    def close(self) -> None:
        """Hang up."""
        self._connection.finish()


def conninfo_of(settings: Mapping[str, Any], *, replication: bool, encoding: str = PINNED["client_encoding"]) -> bytes:
    """Return libpq's connection string of the connector's settings; with `encoding` SQL_ASCII no text is converted.

    The catalogue's connection has its own `lc_monetary` until it was asked what money is in (`sessions.pinning`).
    """
    from psycopg.conninfo import make_conninfo

    pinned = {**PINNED, "client_encoding": encoding}
    parts: dict[str, Any] = {
        "host": settings["database.hostname"],
        "port": settings["database.port"],
        "user": settings["database.user"],
        "password": settings["database.password"],
        "dbname": settings["database.dbname"],
        "sslmode": settings["database.sslmode"],
        "sslcert": settings["database.sslcert"],
        "sslkey": settings["database.sslkey"],
        "sslrootcert": settings["database.sslrootcert"],
        "keepalives": int(settings["database.tcpKeepAlive"]),
        "application_name": "Debezium Streaming" if replication else "Debezium General",
        "connect_timeout": 30,
        "options": as_options({name: value for name, value in pinned.items() if replication or name != "lc_monetary"}),
    }
    if replication:
        parts["replication"] = "database"
    return make_conninfo(**{name: value for name, value in parts.items() if value is not None}).encode()
