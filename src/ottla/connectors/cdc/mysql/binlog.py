"""The binlog as a stream of events: a thread reads, and waits where nobody takes what it has read.

mysql-replication speaks the protocol and takes events apart, but for rows (`rows`). It is never let connect again by itself:
rows would come twice, and nobody would know.
"""

from __future__ import annotations

import contextlib
import logging
import os
import socket
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

from ottla.background import supervise_thread
from ottla.connect import ConnectError, DataError
from ottla.connectors.cdc.mysql.charsets import decoder_of
from ottla.connectors.cdc.mysql.compression import HEADER_BYTES, PACKED, unpacked
from ottla.connectors.cdc.mysql.plain_bytes import (
    LOAD,
    QUERY,
    ROWS,
    TABLE_MAP,
    TableMap,
    map_parts,
    query_parts,
    rows_parts,
)
from ottla.connectors.cdc.mysql.positions import Start
from ottla.connectors.cdc.mysql.server import not_granted, purged_error
from ottla.connectors.cdc.replication import ServerAwayError

__all__ = [
    "BinlogEvent",
    "BinlogStream",
    "Gtid",
    "Mapped",
    "Query",
    "Rotated",
    "Rows",
    "RowsQuery",
    "XaPrepared",
    "Xid",
    "plain_events",
    "wanted_events",
]

EVENTS_MAX: Final = 4096
BYTES_MAX: Final = 64 << 20
"""Events that were read and not taken, and their bytes, at most; one event may be larger."""
HEARTBEAT_SECONDS: Final = 10.0
"""How often a server says something that has nothing to say."""
SILENCE_SECONDS: Final = 60.0
"""After so long without anything the server is gone."""
STOP_SECONDS: Final = 10.0
_STANDALONE: Final = 1
"""A flag of MariaDB's GTIDs: no COMMIT follows."""
_PREPARED_XA: Final = 64
"""Another one: an XA PREPARE is at the end."""


@dataclass(frozen=True, slots=True)
class BinlogEvent:
    """What every event has: when it was made (seconds), by which server, where the next one begins, its bytes."""

    at_s: int
    server_id: int
    end: int
    size: int

    @property
    def begin(self) -> int:
        """Return where it begins in its file."""
        return self.end - self.size


@dataclass(frozen=True, slots=True)
class Rotated(BinlogEvent):
    """Another file follows, from a place on."""

    file: str
    position: int


@dataclass(frozen=True, slots=True)
class Gtid(BinlogEvent):
    """A transaction begins; '' for one without a GTID. `is_whole`: no end is told, as of a statement about tables."""

    gtid: str
    is_whole: bool
    is_prepared: bool = False
    """Whether it is an XA transaction that will be prepared at its end."""


@dataclass(frozen=True, slots=True)
class Query(BinlogEvent):
    """A statement."""

    database: str
    text: str
    thread: int
    sql_mode: int = 0
    """Of its session: how it quotes."""


@dataclass(frozen=True, slots=True)
class RowsQuery(BinlogEvent):
    """The statement of which the rows that follow are."""

    text: str


@dataclass(frozen=True, slots=True)
class Mapped(BinlogEvent):
    """A number stands for a table from now on."""

    number: int
    table_map: TableMap


@dataclass(frozen=True, slots=True)
class Rows(BinlogEvent):
    """Rows of a table: c, u or d; their bytes behind the header."""

    op: str
    number: int
    body: bytes
    """What was sent of each row, and the rows."""
    is_partial: bool = False
    """Whether parts of JSON documents were sent."""


@dataclass(frozen=True, slots=True)
class Xid(BinlogEvent):
    """A transaction ends."""


@dataclass(frozen=True, slots=True)
class XaPrepared(BinlogEvent):
    """An XA transaction is prepared; or, in one phase, committed."""

    is_one_phase: bool


class BinlogStream:
    """A connection that tells events. Raises ConnectError, ServerAwayError."""

    def __init__(
        self, connection: Mapping[str, Any], server_id: int, start: Start, *, is_mariadb: bool, has_queries: bool
    ) -> None:
        self._connection, self._server_id, self._start = connection, server_id, start
        self._is_mariadb, self._has_queries = is_mariadb, has_queries
        self._changed = threading.Condition()
        self._found: list[BinlogEvent] = []
        self._bytes = 0
        self._error: BaseException | None = None
        self._is_closed = False
        self._handle: socket.socket | None = None
        self._connects = 0
        self._wanted: frozenset[type[Any]] = frozenset()
        self._thread = supervise_thread(self._run, name="binlog", serves="a task", failed=self._end)

    def read(self, seconds: float) -> Sequence[BinlogEvent]:
        """Return what has come, after `seconds` at most; raises what has ended the stream once all was taken."""
        with self._changed:
            self._changed.wait_for(lambda: self._found or self._error is not None, seconds)
            found, self._found, self._bytes = self._found, [], 0
            self._changed.notify_all()
            if not found and self._error is not None:
                raise self._error
            return found

    def close(self) -> None:
        """Hang up; the thread ends."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
            handle, self._handle = self._handle, None
        if handle is not None:
            with contextlib.suppress(OSError):  # the server was first
                handle.shutdown(socket.SHUT_RDWR)  # wakes the thread, which closing would not
            handle.close()
        self._thread.join(STOP_SECONDS)

    # -- in the thread

    def _run(self) -> None:
        import pymysql

        try:
            reader = self._reader()
            try:
                while not self._is_closed:
                    event = reader.fetchone()
                    if event is None:
                        raise ServerAwayError("The server has ended the binlog's stream")
                    if not self._take(event, reader):
                        return
            finally:
                reader.close()
        except pymysql.err.Error as error:
            self._end(_in_words(error))
        except Exception as error:  # whatever ends the thread is told to who reads
            self._end(error)

    def _take(self, event: Any, reader: Any) -> bool:
        """Hand an event over, or those that it has compressed; false where nobody wants more."""
        if type(event).__name__ != "NotImplementedEvent" or event.event_type not in PACKED:
            made = _made(event, _header(event))
            return made is None or self._put(made, made.size)
        return all(
            self._put(made, size) for made, size in plain_events(_bytes_of(event), reader, self._wanted, _header(event))
        )

    def _put(self, event: BinlogEvent, size: int) -> bool:
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closed or (len(self._found) < EVENTS_MAX and self._bytes < BYTES_MAX)
            )
            self._found.append(event)
            self._bytes += size
            self._changed.notify_all()
            return not self._is_closed

    def _end(self, error: BaseException) -> None:
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def _reader(self) -> Any:
        from pymysqlreplication import BinLogStreamReader

        self._wanted = wanted_events()
        logging.getLogger("pymysqlreplication").setLevel(
            logging.ERROR
        )  # it would say that it connects again, and may not
        gtids = self._start.gtids or None
        return BinLogStreamReader(
            {**self._connection, "read_timeout": SILENCE_SECONDS},
            self._server_id,
            blocking=True,
            resume_stream=True,
            log_file=self._start.file,
            log_pos=self._start.position,
            auto_position=gtids,
            is_mariadb=self._is_mariadb and gtids is not None,
            annotate_rows_event=self._has_queries,
            slave_heartbeat=HEARTBEAT_SECONDS,
            only_events=self._wanted,
            filter_non_implemented_events=False,
            pymysql_wrapper=self._connected,
            enable_logging=False,
        )

    def _connected(self, **settings: Any) -> Any:
        """Connect for the library: once for the stream, and once for what it asks beside."""
        self._connects += 1
        if self._connects > 2:
            raise ServerAwayError("The connection that tells the binlog is lost")
        made = socket.create_connection((settings["host"], settings["port"]), settings.get("connect_timeout"))
        made.settimeout(None)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._connects == 1:
            with self._changed:
                self._handle = socket.socket(fileno=os.dup(made.fileno()))  # TLS takes the other one away
                if self._is_closed:
                    made.close()
        database = settings.pop("db", None)  # the library's name for it, which the driver does not like any more
        found = _connection_class()(**{**settings, "database": database, "defer_connect": True})
        found.connect(made)
        return found


def _in_words(error: Any) -> Exception:
    """Return a driver's error as what a task raises."""
    code, *words = error.args or ("",)
    text = " ".join(map(str, words)) or str(error)
    if code == PURGED:
        return purged_error(text)
    if code in DENIED:
        return not_granted("read the binlog", text)
    return ServerAwayError(f"The binlog cannot be read ({code}): {text}")


DENIED: Final = (1142, 1227)
"""The servers' numbers for what the user may not do."""
PURGED: Final = 1236
"""ER_MASTER_FATAL_ERROR_READING_BINLOG: what is asked for is not there."""


Head = tuple[int, int, int, int]
"""What every event has: see `BinlogEvent`."""


def _header(event: Any) -> Head:
    packet = event.packet
    return packet.timestamp, packet.server_id, packet.log_pos, packet.event_size


def _bytes_of(event: Any) -> bytes:
    """Return the bytes of an event, without its checksum."""
    return bytes(event.packet.packet.get_all_data()[1 : 1 + HEADER_BYTES + event.event_size])


def plain_events(
    data: bytes, reader: Any, wanted: frozenset[type[Any]], header: Head
) -> Iterator[tuple[BinlogEvent, int]]:
    """Yield the events that one of bytes has compressed, and how large each is; raises DataError.

    `reader` is the library's, `header` that of the compressed event: the others stand nowhere else.
    """
    for each in unpacked(data):
        made = _of_bytes(each, each[_TYPE_AT], header)
        if made is None and (inner := _wrapped(each, reader, wanted)) is not None:
            made = _made(inner, header)
        if made is not None:
            yield made, len(each)


def wanted_events() -> frozenset[type[Any]]:
    """Return the library's classes of events that are looked at."""
    from pymysqlreplication import event

    return frozenset(
        (
            *(event.RotateEvent, event.XidEvent, event.GtidEvent, event.MariadbGtidEvent),
            *(event.MariadbAnnotateRowsEvent, event.RowsQueryLogEvent, event.XAPrepareEvent, event.HeartbeatLogEvent),
            event.NotImplementedEvent,
        )
    )


def _wrapped(data: bytes, reader: Any, wanted: frozenset[type[Any]]) -> Any:
    """Return an event that was compressed as the library takes it apart, None where it is not wanted."""
    from pymysql.protocol import MysqlPacket
    from pymysqlreplication.packet import BinLogPacketWrapper

    given = (reader.table_map, reader._ctl_connection, reader.mysql_version, False, wanted)
    nothing = (None, None, None, None, False, False, False, False, False)
    return BinLogPacketWrapper(MysqlPacket(b"\0" + data, "utf8"), *given, *nothing).event


def _made(event: Any, header: Head) -> BinlogEvent | None:
    """Return one of the library's events as ours, None for what says nothing."""
    name = type(event).__name__
    match name:
        case "RotateEvent":
            return Rotated(*header, event.next_binlog, event.position)
        case "MariadbGtidEvent":
            return Gtid(*header, event.gtid, bool(event.flags & _STANDALONE), bool(event.flags & _PREPARED_XA))
        case "GtidEvent":
            return Gtid(*header, event.gtid, False)
        case "MariadbAnnotateRowsEvent":
            return RowsQuery(*header, event.sql_statement.decode("utf-8", "replace"))
        case "RowsQueryLogEvent":
            return RowsQuery(*header, event.query)
        case "XidEvent":
            return Xid(*header)
        case "XAPrepareEvent":
            return XaPrepared(*header, event.one_phase)
        case "NotImplementedEvent" if event.event_type in _PLAIN:
            return _of_bytes(_bytes_of(event), _PLAIN[event.event_type], header)
        case "NotImplementedEvent" if event.event_type == ANONYMOUS_GTID:
            return Gtid(*header, "", False)
        case "NotImplementedEvent" if event.event_type in UNREAD:
            raise ConnectError(
                f"The binlog has an event at {header[2] - header[3]} that is not read here: {UNREAD[event.event_type]}. "
                "Behind it the tables have to be read anew: reset the connector's offsets"
            )
    return None


ANONYMOUS_GTID: Final = 34
"""MySQL's transactions that have no GTID."""
UNREAD: Final = {
    42: "GTIDs with tags",
}
"""Types of events that hold changes and are not read; to pass over them would lose those."""


def _of_bytes(data: bytes, type_: int, header: Head) -> BinlogEvent | None:
    """Return an event of a type that is taken apart here, None for one that is not."""
    if type_ == TABLE_MAP:
        return Mapped(*header, *map_parts(data))
    if type_ in ROWS:
        op, number, _, body = rows_parts(data, type_)
        return Rows(*header, op, number, body)
    if type_ == PARTIAL_UPDATE:
        return Rows(*header, "u", int.from_bytes(data[HEADER_BYTES : HEADER_BYTES + 6], "little"), b"", True)
    if type_ in (QUERY, LOAD):
        query = query_parts(data, type_)
        return Query(*header, query.database, _statement(query.text, query.charset), query.thread, query.sql_mode)
    return None


def _statement(text: bytes, collation: int) -> str:
    """Return a statement, which stands in the binlog as the client has sent it, in its character set."""
    from pymysql.charset import charset_by_id

    try:
        charset = charset_by_id(collation).name if collation else "utf8mb4"
        return decoder_of(charset)(text)
    except (KeyError, DataError):  # of a collation, or a character set, that is not known: names are in ASCII mostly
        return text.decode("utf-8", "replace")


@cache
def _connection_class() -> type[Any]:
    """Return the driver's connection, from which events that are taken apart here come as ones the library does not know.

    It would take them apart itself, and end at a column's type, a collation or bytes that are strange to it.
    """
    import pymysql
    from pymysql.protocol import MysqlPacket

    class EventConnection(pymysql.Connection):  # type: ignore[misc] # the driver has no types
        is_asking = False
        """Whether what comes is the answer to a statement."""

        def query(self, *given: Any, **more: Any) -> Any:
            self.is_asking = True
            try:
                return super().query(*given, **more)
            finally:
                self.is_asking = False

        def _read_packet(self, packet_type: Any = MysqlPacket) -> Any:
            packet = super()._read_packet(packet_type)
            data = packet.get_all_data()
            is_event = not self.is_asking and len(data) > HEADER_BYTES and data[0] == 0
            if not is_event or (mark := _MARKS.get(data[1 + _TYPE_AT])) is None:
                return packet
            return packet_type(b"".join((data[: 1 + _TYPE_AT], bytes([mark]), data[2 + _TYPE_AT :])), "utf8")

    return EventConnection


_TYPE_AT: Final = 4
PARTIAL_UPDATE: Final = 39
"""MySQL's updates of parts of JSON documents."""
_MARKS: Final[Mapping[int, int]] = {
    each: 0xC8 + at for at, each in enumerate((QUERY, TABLE_MAP, *ROWS, PARTIAL_UPDATE, LOAD))
}
"""Types of events that are taken apart here, and ones that no server has."""
_PLAIN: Final[Mapping[int, int]] = {mark: type_ for type_, mark in _MARKS.items()}
