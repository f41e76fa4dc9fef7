"""What is asked of a server beside its binlog: whether its changes can be captured, where it is, its tables."""

from __future__ import annotations

import contextlib
import logging
import re
import ssl
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from ottla.base import bring_extra
from ottla.connect import ConnectError
from ottla.connectors.cdc.catalog import TableId
from ottla.connectors.cdc.mysql.charsets import CODEC
from ottla.connectors.cdc.mysql.gtids import Executed, GtidFilter
from ottla.connectors.cdc.mysql.positions import Position, Start
from ottla.connectors.cdc.replication import ServerAwayError, ServerLacksError, ServerRefusesError

__all__ = [
    "Server",
    "Where",
    "code_of",
    "connection_settings",
    "not_granted",
    "opened_server",
    "purged_error",
    "quoted",
    "start_of",
]

log = logging.getLogger(__name__)
SYSTEM: Final = ("information_schema", "mysql", "performance_schema", "sys")
LOST: Final = (2003, 2006, 2013, 2014, 1053, 1158, 1159, 1160, 1161, 1927)
"""The driver's and servers' numbers for a connection that is gone."""
LACKING: Final = (1021, 1037, 1038, 1041, 1114, 1135, 1206)
"""The servers' numbers for disk, memory, locks or threads that they have not."""
FULL: Final = (1040, 1203, 1226)
"""The servers' numbers for too many connections, of all or of a user, which pass."""
LOCK_TIMEOUT: Final = 1205
"""The server's number for a lock, of rows or of a table, that was not had in time."""
PASSING: Final = (LOCK_TIMEOUT, 1213, 1226, 1317, 1969, 3024)
"""The servers' numbers for what passes by itself: a lock that others have, a deadlock, a user's queries of an hour, a
statement that somebody has cancelled or that took long."""
CLIENTS_OWN: Final = 2000
"""Numbers from here on are the driver's: of what the server has not said."""
FIRST_BYTE: Final = 4
"""Where the first event of a file begins."""
SLOW_SECONDS: Final = 3600
"""For so long a server waits for us to take what it sends."""
CHANGING: Final = frozenset(
    (
        *("PAD_CHAR_TO_FULL_LENGTH", "NO_FIELD_OPTIONS", "NO_KEY_OPTIONS", "NO_TABLE_OPTIONS"),
        *("MYSQL323", "MYSQL40", "ORACLE", "DB2", "MAXDB", "MSSQL", "POSTGRESQL"),
    )
)
"""Of sql_mode: what changes values, or leaves something out of definitions, and modes of which that is a part."""
NOT_GRANTED: Final = (1044, 1045, 1142, 1227)
MODES: Final[Mapping[str, tuple[bool, bool]]] = {
    "disable": (False, False),
    "disabled": (False, False),
    "preferred": (False, False),
    "trust": (True, False),
    "required": (True, False),
    "verify-ca": (True, True),
    "verify_ca": (True, True),
    "verify-full": (True, True),
    "verify_identity": (True, True),
}
"""database.ssl.mode: whether TLS has to be, and whether the server's certificate is checked."""


def quoted(name: str) -> str:
    """Return a name as statements have it."""
    return "`" + name.replace("`", "``") + "`"


def purged_error(text: str) -> ConnectError:
    """Return what is raised where the server has no more what is to be read."""
    return ConnectError(
        f"The server has no longer the part of its binlog that is to be read next, and the changes in it are lost ({text}). "
        "Reset the connector's offsets to read the tables anew, or set snapshot.mode=when_needed; keep binlogs for longer "
        "(binlog_expire_logs_seconds, expire_logs_days) than the connector may be away"
    )


def _lacking_error(missing: str, executed: Executed) -> ConnectError:
    """Return what is raised where a server has less than was told."""
    return ConnectError(
        f"The server does not have {missing}, behind which the connector goes on: its binlog has come to "
        f"{executed.state or 'nothing'}. Where it is a replica that is behind, let it catch up (with log_slave_updates=ON) "
        "and restart the connector. Where it will never have them, its tables are not what was told: reset the connector's "
        "offsets to read them anew, or set snapshot.mode=when_needed. Sources that do not matter are named in "
        "gtid.source.excludes"
    )


def connection_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the driver is given to connect."""
    found: dict[str, Any] = {
        "host": settings["database.hostname"],
        "port": settings["database.port"],
        "user": settings["database.user"],
        "password": settings["database.password"] or "",
        "connect_timeout": max(1, settings["connect.timeout.ms"] // 1000),
        "charset": "utf8mb4",
        # a server hangs up on who takes nothing for a minute, and Kafka may be as slow
        "init_command": f"set session net_write_timeout = {SLOW_SECONDS}",
    }
    if settings["database.ssl.mode"] in ("disable", "disabled"):
        found["ssl_disabled"] = True
    has_tls, is_checked = MODES[settings["database.ssl.mode"]]
    if has_tls:
        context = ssl.create_default_context(cafile=settings["database.ssl.ca"])
        context.check_hostname = settings["database.ssl.mode"] in ("verify-full", "verify_identity")
        if not is_checked:
            context.verify_mode = ssl.CERT_NONE
        if settings["database.ssl.cert"]:
            context.load_cert_chain(settings["database.ssl.cert"], settings["database.ssl.key"])
        found["ssl"] = context
    return found


@dataclass(frozen=True, slots=True)
class Where:
    """Where a server is."""

    start: Start
    server_id: int


class Server:
    """Asks a connection of its own."""

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        version = str(connection.get_server_info())
        self.is_mariadb = "mariadb" in version.lower()
        self.version = version

    def rows(self, query: str, *parameters: Any) -> list[Sequence[Any]]:
        """Return a query's rows; raises ConnectError in the server's words, ServerAwayError where it is gone."""
        import pymysql

        try:
            with self._connection.cursor() as cursor:
                cursor.execute(query, parameters or None)
                return list(cursor.fetchall())
        except pymysql.err.Error as error:
            raise _error(error, query) from error

    def literal(self, text: str) -> str:
        """Return a text as statements have it."""
        return str(self._connection.escape(text))

    def run(self, statement: str) -> None:
        """Run what gives no rows."""
        self.rows(statement)

    def stream(self, query: str, fetch: int) -> Generator[Sequence[Sequence[Any]], None, None]:
        """Yield a query's rows, so many at a time, as the server sends them."""
        import pymysql
        from pymysql.cursors import SSCursor

        try:
            with self._connection.cursor(SSCursor) as cursor:
                cursor.execute(query)
                while rows := cursor.fetchmany(fetch):
                    yield rows
        except pymysql.err.Error as error:
            raise _error(error, query) from error

    def variable(self, name: str) -> str | None:
        """Return one of the server's variables, None where it has none of that name."""
        found = self.rows("show global variables like %s", name)
        return str(found[0][1]) if found else None

    def where(self) -> Where:
        """Return where the binlog ends, and what was executed up to there."""
        [[server_id]] = self.rows("select @@server_id")
        try:
            found = self.rows("show master status")
        except ServerAwayError:
            raise
        except ConnectError as error:
            if "SYNTAX" not in str(error).upper():
                raise
            found = self.rows("show binary log status")  # MySQL 8.4 has no other name for it
        if not found:
            raise ConnectError("The server writes no binlog: start it with --log-bin")
        file, position = str(found[0][0]), int(found[0][1])
        if self.is_mariadb:
            [[gtids]] = self.rows("select binlog_gtid_pos(%s, %s)", file, position)
        else:
            gtids = found[0][4] if len(found[0]) > 4 else ""
        return Where(Start(file, position, str(gtids or "").replace("\n", "")), int(server_id))

    def files(self) -> list[str]:
        """Return the names of the binlog's files, the oldest first."""
        return [str(each[0]) for each in self.rows("show binary logs")]

    def oldest(self) -> Start:
        """Return where the binlog begins, and what was executed before that."""
        files = self.files()
        if not files:
            raise ConnectError("The server has no binlog")
        if self.is_mariadb:
            [[gtids]] = self.rows("select binlog_gtid_pos(%s, %s)", files[0], str(FIRST_BYTE))
        else:
            [[gtids]] = self.rows("select @@global.gtid_purged")
        return Start(files[0], FIRST_BYTE, str(gtids or "").replace("\n", ""))

    def executed(self) -> Executed:
        """Return behind which transactions the binlog can be read."""
        if not self.is_mariadb:
            [[executed, own]] = self.rows("select @@global.gtid_executed, @@server_uuid")
            return Executed(str(executed or "").replace("\n", ""), own=str(own))
        [[state, replicated]] = self.rows("select @@global.gtid_binlog_state, @@global.gtid_slave_pos")
        has_replicated = (self.variable("log_slave_updates") or "").upper() in ("ON", "1")
        return Executed(str(state or ""), str(replicated or "") if has_replicated else "")

    def databases(self) -> list[str]:
        """Return the names of users' databases."""
        return sorted(name for (name,) in self.rows("show databases") if name.lower() not in SYSTEM)

    def tables(self, database: str) -> list[TableId]:
        """Return the names of a database's tables."""
        return self._of_types(database, "'BASE TABLE', 'SYSTEM VERSIONED'")

    def sequences(self, database: str) -> list[TableId]:
        """Return the names of a database's sequences, whose numbers are in the binlog like rows of tables."""
        return self._of_types(database, "'SEQUENCE'")

    def _of_types(self, database: str, types: str) -> list[TableId]:
        found = self.rows(f"show full tables from {quoted(database)} where table_type in ({types})")
        return [TableId(database, each[0]) for each in found]

    def definition(self, table: TableId) -> str | None:
        """Return the statement that makes a table, None where it is gone."""
        try:
            found = self.rows(f"show create table {quoted(table.schema)}.{quoted(table.table)}")
        except ServerAwayError:
            raise
        except ConnectError:
            return None
        return str(found[0][1])

    def collations(self) -> dict[str, str]:
        """Return the collations of databases, and the server's under ''."""
        rows = self.rows("select schema_name, default_collation_name from information_schema.schemata")
        return {**{str(name): str(collation) for name, collation in rows}, "": self.variable("collation_server") or ""}

    def charsets(self) -> dict[str, str]:
        """Return the character sets of databases, and the server's under ''."""
        rows = self.rows("select schema_name, default_character_set_name from information_schema.schemata")
        return {
            **{str(name): str(charset) for name, charset in rows},
            "": self.variable("character_set_server") or "latin1",
        }

    def close(self) -> None:
        """Hang up, in the middle of rows too."""
        import pymysql

        result = getattr(self._connection, "_result", None)
        if result is not None:
            result.unbuffered_active = False  # else the driver would read what is left of a query first
        with contextlib.suppress(pymysql.err.Error):  # it was closed by the server
            self._connection.close()


def code_of(error: ConnectError) -> int:
    """Return the server's number of an error that a `Server` has raised; 0 where it has none."""
    words = getattr(error.__cause__, "args", ())
    return words[0] if words and isinstance(words[0], int) else 0


def not_granted(what: str, text: str) -> ConnectError:
    """Return what is raised where the user may not do what is needed, in the server's words."""
    return ConnectError(
        f"The user may not {what} ({text}): GRANT SELECT, RELOAD, SHOW DATABASES, REPLICATION SLAVE, REPLICATION CLIENT ON "
        "*.* TO it (on MariaDB BINLOG MONITOR is REPLICATION CLIENT's name)"
    )


def _error(error: Any, query: str) -> ConnectError:
    code, *words = error.args or ("",)
    text = " ".join(map(str, words)) or str(error)
    if code in LOST or code == 0:
        return ServerAwayError(f"The database cannot be asked: {text}")
    if code in PASSING:
        return ServerAwayError(f"The database has ended {query[:200]!r}: {text}")
    if code in LACKING:
        return ServerLacksError(
            f"The server has not what {query[:200]!r} needs: {text}. Make room on its disk, or give it more memory, threads "
            "or locks, as it says"
        )
    if code in NOT_GRANTED:
        return not_granted(f"run {query.split(chr(10))[0][:80]!r}", text)
    return ConnectError(f"The database refuses {query[:200]!r}: {text}")


def _why_away(error: Exception) -> str:
    """Return the driver's words without its wrapping and the number of the system's error."""
    words = str(error.args[-1]) if error.args else type(error).__name__
    return re.sub(r"\[Errno -?\d+\] ", "", words)


def opened_server(settings: Mapping[str, Any], *, wants_mariadb: bool) -> Server:
    """Connect and look at what is needed; raises ConnectError in words that say what to do."""
    try:
        import pymysql
        import pymysqlreplication  # noqa: F401 what is missing is said here, and not in the stream's thread
    except ImportError as error:
        raise ConnectError(
            f"The MySQL and MariaDB connectors need mysql-replication: {bring_extra('connect')}"
        ) from error
    try:
        from pymysql.converters import encoders

        connection = pymysql.connect(**connection_settings(settings), autocommit=True, conv=dict(encoders))
    except RuntimeError as error:  # the driver wants `cryptography` for a password's way without TLS
        raise ConnectError(f"The database cannot be logged in to: {error} ({bring_extra('security')})") from error
    except (pymysql.err.Error, OSError) as error:
        code = error.args[0] if error.args else None
        is_there = isinstance(error, pymysql.err.Error) and isinstance(code, int) and 1000 <= code < CLIENTS_OWN
        refuses = is_there and code not in (*LOST, *FULL)
        kind = ServerRefusesError if refuses else ServerAwayError
        raise kind(f"The database cannot be reached: {_why_away(error)}") from error
    connection.encoding = CODEC
    server = Server(connection)
    try:
        server.run("set time_zone = '+00:00'")
        server.run(f"set session {'max_statement_time' if server.is_mariadb else 'max_execution_time'} = 0")
        _pin(server)
        for statement in (settings["database.initial.statements"] or "").split(";"):
            if statement.strip():
                server.run(statement)
        _check(server, wants_mariadb=wants_mariadb)
    except ConnectError:
        server.close()
        raise
    return server


def _pin(server: Server) -> None:
    """Have values and definitions sent as they are, whatever the server's own settings are for that."""
    [[modes]] = server.rows("select @@sql_mode")
    kept = ",".join(each for each in str(modes).split(",") if each not in CHANGING)
    server.run(f"set session sql_quote_show_create = 1, sql_mode = '{kept}'")


def _check(server: Server, *, wants_mariadb: bool) -> None:
    if server.is_mariadb != wants_mariadb:
        is_, other = ("MariaDB", "mariadb.MariaDb") if server.is_mariadb else ("MySQL", "mysql.MySql")
        raise ConnectError(f"The server is {is_} {server.version}: use io.debezium.connector.{other}Connector")
    if (server.variable("log_bin") or "OFF").upper() not in ("ON", "1"):
        raise ConnectError("The server writes no binlog: start it with --log-bin and a --server-id")
    for name, wanted in (("binlog_format", "ROW"), ("binlog_row_image", "FULL")):
        value = server.variable(name)
        if value is not None and value.upper() != wanted:
            raise ConnectError(
                f"The server's {name} is {value}, and changes can be captured with {wanted} alone: SET GLOBAL {name} = "
                f"'{wanted}', in its configuration too, and let clients connect anew"
            )
    if (server.variable("binlog_row_value_options") or "").upper() == "PARTIAL_JSON":
        raise ConnectError("The server writes parts of JSON documents: SET GLOBAL binlog_row_value_options = ''")
    if (server.variable("binlog_alter_two_phase") or "OFF").upper() == "ON":
        raise ConnectError("The server writes ALTER in two parts: SET GLOBAL binlog_alter_two_phase = OFF")


def start_of(server: Server, position: Position, filter_: GtidFilter) -> Start:
    """Return where to begin to read; raises ConnectError where the server is not at a position, or lacks what follows.

    MariaDB itself goes on behind a domain that it does not know, and leaves out what lies between the two.
    """
    oldest, start = server.oldest(), position.start
    if not position.gtids:
        if position.file not in server.files():
            raise purged_error(f"{position.file} is gone, {oldest.file} is the oldest file")
        return start
    if missing := filter_.missing(position.gtids, executed := server.executed()):
        raise _lacking_error(missing, executed)
    if not oldest.gtids:
        return start
    if not filter_.holds(position.gtids, oldest.gtids):
        raise purged_error(
            f"the oldest file, {oldest.file}, begins behind {oldest.gtids}, and {position.gtids} is before it"
        )
    return replace(start, gtids=filter_.start(position.gtids, oldest.gtids))
