"""MySQL's events, by the bytes of its documentation: compressed transactions, ones of two phases, filters of sources."""

from __future__ import annotations

import json
import struct
import zlib
from types import SimpleNamespace
from typing import Any

import cramjam
import pytest

from ottla.connect import DataError, SourceRecord
from ottla.connectors.cdc.events import Events
from ottla.connectors.cdc.metrics import CaptureMetrics
from ottla.connectors.cdc.mysql.binlog import Gtid, Query, XaPrepared, plain_events, wanted_events
from ottla.connectors.cdc.mysql.binlog_events import binlog_dialect
from ottla.connectors.cdc.mysql.compression import unpacked
from ottla.connectors.cdc.mysql.ddl import follow
from ottla.connectors.cdc.mysql.gtids import GtidFilter
from ottla.connectors.cdc.mysql.history import MEMORY, history_store
from ottla.connectors.cdc.mysql.positions import XA_PREPARED, Position, Start
from ottla.connectors.cdc.mysql.prepared import xid_of
from ottla.connectors.cdc.mysql.reading import BinlogReading
from ottla.connectors.cdc.mysql.settings import BINLOG_DEF, sql_kinds
from ottla.connectors.cdc.mysql.tables import Tables
from ottla.connectors.cdc.settings import Selection
from tests.connectors.cdc.test_mariadb_source import told

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "4c9e3dfc-9d25-11e9-8d2e-0242ac1cfd7e"
PAYLOAD, QUERY, XID, TABLE_MAP, WRITE_ROWS_V1, WRITE_ROWS = 40, 2, 16, 19, 23, 30
HEAD = (1_700_000_000, 1, 900, 500)
"""When, of which server, where the event ends, its size."""


def event(type_: int, body: bytes) -> bytes:
    return struct.pack("<IBIIIH", HEAD[0], type_, 1, 19 + len(body), 0, 0) + body


def query(text: bytes) -> bytes:
    return event(QUERY, struct.pack("<IIBHH", 7, 0, 1, 0, 0) + b"d\0" + text)


def table_map(number: int = 5) -> bytes:
    names = b"\1d\0" + b"\1t\0"
    return event(TABLE_MAP, struct.pack("<IHH", number, 0, 1) + names + b"\2\3\3" + b"\0" + b"\2")


def rows(*values: int, number: int = 5, type_: int = WRITE_ROWS) -> bytes:
    more = b"\2\0" if type_ >= WRITE_ROWS else b""
    data = b"".join(b"\0" + struct.pack("<ii", each, 10 * each) for each in values)
    return event(type_, struct.pack("<IHH", number, 0, 1) + more + b"\2\3" + data)


def payload(data: bytes, *, method: int = 0, size: int | None = None) -> bytes:
    """A TRANSACTION_PAYLOAD_EVENT: fields of type, length and value, the mark of their end, and the payload."""
    packed = bytes(cramjam.zstd.compress(data)) if method == 0 else data
    size_field = b"\xfc" + struct.pack("<H", len(packed))
    plain = b"\xfc" + struct.pack("<H", len(data) if size is None else size)
    fields = b"\2\1" + bytes([method]) if method < 251 else b"\2\3\xfc" + struct.pack("<H", method)
    return event(PAYLOAD, fields + b"\1\3" + size_field + b"\3\3" + plain + b"\0" + packed)


def reader() -> Any:
    connection = SimpleNamespace(charset="utf8", _get_dbms=lambda: "mysql")
    return SimpleNamespace(table_map={}, _ctl_connection=connection, mysql_version=(8, 0, 36))


def expanded(data: bytes) -> list[Any]:
    return [each for each, _ in plain_events(data, reader(), wanted_events(), HEAD)]


def reading(position: Position | None = None, **more: str) -> BinlogReading:
    """A reading of table d.t (id, v), at a position."""
    given = {"database.hostname": "h", "database.user": "u", "topic.prefix": "p", "include.schema.changes": "false"}
    settings = BINLOG_DEF.parse({**given, "schema.history.internal": MEMORY, **more})
    events = Events(settings, binlog_dialect("mysql", sql_kinds(settings)), Selection.of(settings, "database"))
    metrics = CaptureMetrics("p", plugin="mysql")
    at = position or Position("b.1", 4, f"{A}:1")
    found = BinlogReading(settings, events, history_store(settings, {}), metrics, unreachable, at)
    tables = Tables()
    follow("create table t (id int primary key, v int)", "d", tables, {"": "utf8mb4"})
    found.begin(at, {"": "utf8mb4"}, tables)
    found.connected(1, has_names=False, is_mariadb=False)
    return found


def unreachable() -> Any:
    raise AssertionError("the server is not asked")


def taken(reading_: BinlogReading, *events: Any) -> list[SourceRecord]:
    """Give events, and what they have compressed; returns the records."""
    for each in events:
        for one in expanded(each) if isinstance(each, bytes) else (each,):
            reading_.take(one)
            while reading_.is_replaying:
                reading_.replay()
    found, reading_.waiting = reading_.waiting, []
    return found


def gtid(number: int, source: str = A) -> Gtid:
    return Gtid(*HEAD, f"{source}:{number}", False)


def said(text: str) -> Query:
    return Query(*HEAD, "d", text, 7)


WHOLE = (query(b"BEGIN"), table_map(), rows(1, 2), event(XID, bytes(8)))


@pytest.mark.parametrize("method", [0, 255])
def test_a_compressed_transaction_is_read_as_a_plain_one(method: int) -> None:
    found = taken(at := reading(), gtid(2), payload(b"".join(WHOLE), method=method), gtid(3), said("BEGIN"))
    assert told(found) == [("c", 1), ("c", 2)] and found[1].value["after"]["v"] == 20
    assert found[1].value["source"]["gtid"] == f"{A}:2" and found[1].value["source"]["pos"] == 400
    assert at.position.gtids == f"{A}:1-2"
    stored = Position.of(json.loads(json.dumps(found[0].source_offset)))
    assert told(taken(reading(stored), gtid(2), payload(b"".join(WHOLE), method=method))) == [("c", 2)]


@pytest.mark.parametrize(
    "bytes_",
    [
        payload(b"".join(WHOLE), size=10),
        payload(b"".join(WHOLE), size=60_000),
        payload(b"".join(WHOLE), method=3),
        payload(b"".join(WHOLE)[:-3], method=255),
        payload(b"\xff" * 40, method=255),
        payload(b"".join(WHOLE))[:-5],
        event(PAYLOAD, b"\1\3\xfc\x05"),
        event(PAYLOAD, b"\xff"),
        event(PAYLOAD, b""),
        event(166, b"\1" * 6),
        event(166, struct.pack("<IHH", 5, 0, 1) + b"\2\3" + b"\x81\xff" + zlib.compress(b"x")),
        event(166, struct.pack("<IHH", 5, 0, 1) + b"\2\3" + b"\x84\xff\xff\xff\xff" + zlib.compress(b"x")),
        event(166, struct.pack("<IHH", 5, 0, 1) + b"\2\3" + b"\x91\x01x"),
        event(165, b"\0" * 13),
        b"\x00" * 10,
    ],
)
def test_hostile_compressed_bytes_are_an_error_that_says_so(bytes_: bytes) -> None:
    with pytest.raises(DataError):
        list(unpacked(bytes_))


@pytest.mark.parametrize(("packed", "plain"), [(166, WRITE_ROWS_V1), (169, WRITE_ROWS)])
def test_mariadbs_compressed_rows_of_both_versions_are_read(packed: int, plain: int) -> None:
    wanted = rows(3, 4, type_=plain)
    begin = len(wanted) - 18
    tail = bytes([0x81, 18]) + zlib.compress(wanted[begin:])
    given = bytearray(wanted[:begin] + tail)
    given[4] = packed
    assert list(unpacked(bytes(given))) == [wanted]


XA_NAME = "X'6122',X'',1"


def test_an_xa_transaction_of_one_phase_is_told_at_its_end() -> None:
    transaction = (gtid(2), said(f"XA START {XA_NAME}"), *expanded(payload(table_map() + rows(1, 2))))
    end = (said(f"XA END {XA_NAME}"), XaPrepared(*HEAD, True))
    at = reading()
    assert taken(at, *transaction, said(f"XA END {XA_NAME}")) == []
    found = taken(at, XaPrepared(*HEAD, True))
    assert told(found) == [("c", 1), ("c", 2)] and found[0].value["source"]["thread"] == 7
    assert at.position.gtids == f"{A}:1-2" and XA_PREPARED not in at.position.offset()
    stored = Position.of(found[0].source_offset or {})
    assert told(taken(reading(stored), *transaction, *end)) == [("c", 2)]


def test_xa_transactions_side_by_side_are_told_apart_by_their_names() -> None:
    at = reading()
    for number, name in ((2, XA_NAME), (3, "X'62',X'',1")):
        events = expanded(payload(table_map() + rows(number)))
        assert not taken(at, gtid(number), said(f"XA START {name}"), *events, said(f"XA END {name}"), prepared())
    assert not taken(at, gtid(4), said(f"XA ROLLBACK {XA_NAME}"))
    assert told(taken(at, gtid(5), said("XA COMMIT X'62',X'',1"))) == [("c", 3)]
    assert at.position.gtids == f"{A}:1-5" and XA_PREPARED not in at.position.offset()


def prepared() -> XaPrepared:
    return XaPrepared(*HEAD, False)


def test_an_xa_transaction_is_read_once_more_where_a_restart_lies_between(caplog: pytest.LogCaptureFixture) -> None:
    at, events = reading(), expanded(payload(table_map() + rows(1, 2)))
    first = (gtid(2), said(f"XA START {XA_NAME}"), *events, said(f"XA END {XA_NAME}"), prepared())
    assert not taken(at, *first)
    again = reading(Position.of(json.loads(json.dumps(at.position.offset()))))
    again.take(gtid(3))
    again.take(said(f"XA COMMIT {XA_NAME.lower()}"))
    assert again.reread == Start("b.1", 400, f"{A}:1")
    assert [again.take_again(each) for each in first] == [False] * 5 + [True]
    assert told(again.waiting) == [("c", 1), ("c", 2)] and again.reread is None
    foreign = reading(Position.of(at.position.offset()))
    foreign.take(gtid(3))
    foreign.take(said(f"XA COMMIT {XA_NAME}"))
    assert [foreign.take_again(each) for each in (gtid(9), *events)] == [False] * 3 and not foreign.waiting
    with pytest.raises(Exception, match="has another one now"):
        foreign.take_again(gtid(3))
    assert not taken(at, gtid(4), said("XA COMMIT X'aa',X'',1"))
    assert "was prepared before this connector read the binlog" in caplog.text


def test_names_of_xa_transactions_have_one_form() -> None:
    assert xid_of("XA COMMIT X'6122',X'',1") == xid_of("xa start x'6122' , X'' , 1 ") == "x'6122',x'',1"
    assert xid_of("XA COMMIT 'a' ONE PHASE") == xid_of("XA END 'a'") == "'a'" and xid_of("XA RECOVER") == ""


def filter_of(**given: str) -> GtidFilter:
    settings: dict[str, Any] = {"includes": None, "excludes": None, "filter.dml.events": True, **given}
    return GtidFilter({f"gtid.source.{name}": value for name, value in settings.items()})


def test_sources_are_filtered_and_what_a_server_has_no_more_of_others_is_not_asked_for() -> None:
    one = filter_of(includes=f"{B},{A.upper()[:8]}.*")
    assert one.has_rows(f"{A}:5") and one.has_rows(f"{A}:tag:5") and one.has_rows("")
    assert not filter_of(excludes=f"{A}").has_rows(f"{A}:5") and filter_of(excludes=A).has_rows(f"{B}:5")
    only_a = filter_of(includes=A)
    assert only_a.holds(f"{A}:1-9", f"{A}:1-5,{B}:1-100") and not only_a.holds(f"{A}:1-4", f"{A}:1-5")
    assert only_a.start(f"{A}:1-9,{B}:1-3", f"{A}:1-5,{B}:1-100") == f"{A}:1-9,{B}:1-100"
    assert filter_of().start(f"{A}:1-9", f"{A}:1-5") == f"{A}:1-9"
    maria = filter_of(excludes="[12]-7")
    assert not maria.has_rows("1-7-100") and maria.has_rows("1-8-100")
    assert maria.start("0-1-5", "0-1-4,2-7-50") == "0-1-5,2-7-50"
    with pytest.raises(Exception, match="cannot both be given"):
        filter_of(includes=A, excludes=B)


def test_rows_of_a_source_that_is_left_out_are_passed_over() -> None:
    at = reading(**{"gtid.source.includes": B})
    assert not taken(at, gtid(2), payload(b"".join(WHOLE)))
    assert told(taken(at, gtid(1, B), payload(b"".join(WHOLE)))) == [("c", 1), ("c", 2)]
    assert at.position.gtids == f"{A}:1-2,{B}:1"
