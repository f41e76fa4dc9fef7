"""Statements, by their first words."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from ottla.sql.errors import SqlError
from ottla.sql.parser.cursor import Cursor
from ottla.sql.parser.expression_parser import ExpressionParser
from ottla.sql.parser.names import source_name
from ottla.sql.parser.query_parser import parse_duration, parse_query
from ottla.sql.parser.type_parser import CustomTypes, parse_type
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree import statements as s
from ottla.sql.types import SqlType


class StatementParser:
    """Reads one statement. With `testing` it reads ASSERT VALUES and RUN SCRIPT, too."""

    def __init__(self, cursor: Cursor, custom: CustomTypes, *, testing: bool) -> None:
        self._cursor = cursor
        self._custom = custom
        self._testing = testing
        self._values = ExpressionParser(cursor, custom, frozenset())

    def statement(self) -> s.Statement:
        """Read a statement up to its semicolon, which stays."""
        cursor = self._cursor
        if cursor.is_word("SELECT"):
            return s.QueryStatement(parse_query(cursor, self._custom, persistent=False))
        word = cursor.token.word if cursor.token.kind == "word" else ""
        read = self._readers().get(word)
        if read is None:
            cursor.unknown_statement()
        cursor.take()
        return read()

    def _readers(self) -> dict[str, Callable[[], s.Statement]]:
        readers: dict[str, Callable[[], s.Statement]] = {
            "CREATE": self._create,
            "INSERT": self._insert,
            "DROP": self._drop,
            "ALTER": self._alter,
            "LIST": self._show,
            "SHOW": self._show,
            "DESCRIBE": self._describe,
            "EXPLAIN": self._explain,
            "PRINT": self._print,
            "TERMINATE": lambda: self._control("TERMINATE"),
            "PAUSE": lambda: self._control("PAUSE"),
            "RESUME": lambda: self._control("RESUME"),
            "SET": self._set,
            "UNSET": self._unset,
            "DEFINE": self._define,
            "UNDEFINE": lambda: s.UndefineVariable(self._variable()),
            "ASSERT": self._assert,
        }
        if self._testing:
            readers["RUN"] = self._run
        return readers

    # --- CREATE

    def _create(self) -> s.Statement:
        cursor = self._cursor
        or_replace = cursor.accept("OR", "REPLACE")
        if not or_replace and cursor.accept("TYPE"):
            if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
            name = cursor.name()
            cursor.expect("AS")
            return s.CreateType(name, parse_type(cursor, self._custom), if_not_exists)
        if not or_replace and cursor.is_word("SINK", "SOURCE") and cursor.ahead().word == "CONNECTOR":
            return self._create_connector()
        read_only = cursor.accept("SOURCE")
        if not cursor.is_word("STREAM", "TABLE"):
            cursor.near()
        kind = self._kind()
        if_not_exists = cursor.accept("IF", "NOT", "EXISTS")
        name = source_name(cursor)
        columns = self._columns() if cursor.is_word("(") else ()
        properties = self._with()
        if not columns and not read_only and cursor.accept("AS"):
            query = parse_query(cursor, self._custom, persistent=True)
            return s.CreateAs(kind, name, query, properties, or_replace, if_not_exists)
        return s.CreateSource(kind, name, columns, properties, or_replace, if_not_exists, read_only)

    def _create_connector(self) -> s.Statement:
        direction = self._cursor.take().word
        self._cursor.expect("CONNECTOR")
        if_not_exists = self._cursor.accept("IF", "NOT", "EXISTS")
        name = self._cursor.name()
        if not self._cursor.is_word("WITH"):
            self._cursor.unexpected(("'WITH'",))
        return s.CreateConnector(direction, name, self._with(), if_not_exists)  # type: ignore[arg-type]

    def _kind(self) -> s.SourceKind:
        return "STREAM" if self._cursor.expect_any("STREAM", "TABLE") == "STREAM" else "TABLE"

    def _columns(self) -> tuple[s.ColumnDefinition, ...]:
        cursor = self._cursor
        cursor.expect("(")
        found = [self._column()]
        while cursor.accept(","):
            found.append(self._column())
        cursor.expect(")")
        return tuple(found)

    def _column(self) -> s.ColumnDefinition:
        cursor = self._cursor
        name = cursor.name()
        type_ = parse_type(cursor, self._custom)
        if cursor.accept("PRIMARY"):
            cursor.expect("KEY")
            return s.ColumnDefinition(name, type_, "PRIMARY KEY")
        if cursor.accept("KEY"):
            return s.ColumnDefinition(name, type_, "KEY")
        if cursor.accept("HEADERS"):
            return s.ColumnDefinition(name, type_, "HEADERS")
        if cursor.accept("HEADER"):
            cursor.expect("(")
            header = cursor.string()
            cursor.expect(")")
            return s.ColumnDefinition(name, type_, "HEADER", header)
        return s.ColumnDefinition(name, type_)

    def _with(self) -> s.Properties:
        """Read `WITH (name = literal, …)` where there is one."""
        cursor = self._cursor
        if not cursor.accept("WITH"):
            return ()
        cursor.expect("(")
        found: dict[str, e.Literal] = {}
        while True:
            name = cursor.string() if cursor.token.kind == "string" else cursor.name()
            cursor.expect("=")
            value = self._values.literal()
            if name in found:
                raise SqlError(f"Multiple entries with same key: {name}={found[name]} and {name}={value}")
            found[name] = value
            if not cursor.accept(","):
                break
        cursor.expect(")")
        return tuple(found.items())

    # --- rows, and what there is

    def _insert(self) -> s.Statement:
        cursor = self._cursor
        cursor.expect("INTO")
        name = source_name(cursor)
        if cursor.is_word("(", "VALUES"):
            columns = self._names()
            cursor.expect("VALUES")
            return s.InsertValues(name, columns, self._row())
        properties = self._with()
        if not cursor.is_word("SELECT"):
            cursor.near()
        return s.InsertInto(name, parse_query(cursor, self._custom, persistent=True), properties)

    def _names(self) -> tuple[str, ...]:
        cursor = self._cursor
        if not cursor.accept("("):
            return ()
        found = [cursor.name()]
        while cursor.accept(","):
            found.append(cursor.name())
        cursor.expect(")")
        return tuple(found)

    def _row(self) -> tuple[e.Expression, ...]:
        cursor = self._cursor
        cursor.expect("(")
        found: list[e.Expression] = []
        while not (cursor.is_word(")") and not found):
            found.append(self._values.value())
            if not cursor.accept(","):
                break
        cursor.expect(")")
        return tuple(found)

    def _drop(self) -> s.Statement:
        cursor = self._cursor
        what = cursor.accept_any("STREAM", "TABLE", "CONNECTOR", "TYPE")
        if what is None:
            cursor.near()
        if_exists = cursor.accept("IF", "EXISTS")
        if what == "CONNECTOR":
            return s.DropConnector(cursor.name(), if_exists)
        if what == "TYPE":
            return s.DropType(cursor.name(), if_exists)
        name = source_name(cursor, is_known=True)
        return s.DropSource(
            "STREAM" if what == "STREAM" else "TABLE", name, if_exists, cursor.accept("DELETE", "TOPIC")
        )

    def _alter(self) -> s.Statement:
        cursor = self._cursor
        if cursor.accept("SYSTEM"):
            name = cursor.string()
            cursor.expect("=")
            return s.SetProperty(name, cursor.string(), system=True)
        kind = self._kind()
        name = source_name(cursor)
        added = [self._added()]
        while cursor.accept(","):
            added.append(self._added())
        return s.AlterSource(kind, name, tuple(added))

    def _added(self) -> tuple[str, SqlType]:
        cursor = self._cursor
        cursor.expect("ADD")
        if cursor.is_word("COLUMN") and not (cursor.ahead(2).word in (",", ";") or cursor.ahead(2).kind == "end"):
            cursor.take()  # else it is a column of that name
        name = cursor.name()
        return name, parse_type(cursor, self._custom)

    # --- questions

    def _show(self) -> s.Statement:
        cursor = self._cursor
        if cursor.accept("CONNECTOR"):
            cursor.expect("PLUGINS")
            return s.Show("CONNECTOR PLUGINS")
        direction = cursor.accept_any("SOURCE", "SINK")
        if direction is not None:
            cursor.expect("CONNECTORS")
            return s.Show(f"{direction} CONNECTORS")
        if cursor.accept("ALL"):
            cursor.expect("TOPICS")
            return s.Show("ALL TOPICS", cursor.accept("EXTENDED"))
        what = cursor.accept_any("TOPICS", "STREAMS", "TABLES", "QUERIES")
        if what is not None:
            return s.Show(what, cursor.accept("EXTENDED"))
        what = cursor.accept_any("PROPERTIES", "FUNCTIONS", "CONNECTORS", "TYPES", "VARIABLES")
        if what is None:
            cursor.near()
        return s.Show(what)

    def _describe(self) -> s.Statement:
        cursor = self._cursor
        if cursor.is_word("FUNCTION", "CONNECTOR") and (cursor.ahead().kind != "end" and cursor.ahead().word != ";"):
            what: Literal["FUNCTION", "CONNECTOR"] = "FUNCTION" if cursor.take().word == "FUNCTION" else "CONNECTOR"
            return s.Describe(what, cursor.name())
        if cursor.accept("STREAMS"):
            return s.Describe("STREAMS", None, cursor.accept("EXTENDED"))
        if cursor.accept("TABLES"):
            return s.Describe("TABLES", None, cursor.accept("EXTENDED"))
        name = source_name(cursor, is_known=True)
        return s.Describe("SOURCE", name, cursor.accept("EXTENDED"))

    def _explain(self) -> s.Statement:
        cursor = self._cursor
        ends = cursor.ahead().word == ";" or cursor.ahead().kind == "end"
        if cursor.is_name() and ends:
            return s.Explain(query_id=cursor.name())
        cursor.deeper()
        return s.Explain(statement=self.statement())

    def _print(self) -> s.Statement:
        cursor = self._cursor
        topic = self._resource()
        from_beginning = cursor.accept("FROM", "BEGINNING")
        every = cursor.accept_any("INTERVAL", "SAMPLE")
        interval = self._values.whole("INTERVAL") if every else None
        limit = self._values.whole("LIMIT") if cursor.accept("LIMIT") else None
        return s.PrintTopic(topic, from_beginning, interval, limit)

    def _resource(self) -> str:
        """Read a topic's or subject's name, whose case of letters stays."""
        cursor = self._cursor
        return cursor.string() if cursor.token.kind == "string" else cursor.name(as_written=True)

    # --- the session and what runs

    def _control(self, action: Literal["TERMINATE", "PAUSE", "RESUME"]) -> s.Statement:
        return s.Control(action, None if self._cursor.accept("ALL") else self._cursor.name())

    def _set(self) -> s.Statement:
        name = self._text()
        self._cursor.expect("=")
        return s.SetProperty(name, self._text())

    def _unset(self) -> s.Statement:
        return s.UnsetProperty(self._text())

    def _text(self) -> str:
        if self._cursor.token.kind == "variable":
            self._cursor.variable_roles[self._cursor.token.start] = "literal"
            return self._cursor.take().text
        return self._cursor.string()

    def _define(self) -> s.Statement:
        name = self._variable()
        self._cursor.expect("=")
        return s.DefineVariable(name, self._cursor.string())

    def _variable(self) -> str:
        """Read a variable's name: any plain word, keywords too."""
        if self._cursor.token.kind != "word":
            self._cursor.unexpected(("IDENTIFIER",))
        return self._cursor.take().text

    # --- assertions

    def _assert(self) -> s.Statement:
        cursor = self._cursor
        exists = not cursor.accept("NOT", "EXISTS")
        if cursor.accept("TOPIC"):
            return s.AssertTopic(self._resource(), exists, self._with(), self._timeout())
        if cursor.accept("SCHEMA"):
            subject = self._resource() if cursor.accept("SUBJECT") else None
            identifier = self._values.literal() if cursor.accept("ID") else None
            return s.AssertSchema(subject, identifier, exists, self._timeout())
        if not self._testing:
            cursor.near()
        if cursor.accept("VALUES"):
            name, columns = source_name(cursor), self._names()
            cursor.expect("VALUES")
            return s.AssertValues(name, columns, self._row())
        if cursor.accept("NULL", "VALUES"):
            name, columns = source_name(cursor), self._names()
            cursor.expect("KEY")
            return s.AssertValues(name, columns, self._row(), tombstone=True)
        kind = self._kind()
        name = source_name(cursor)
        return s.AssertSource(kind, name, self._columns() if cursor.is_word("(") else (), self._with())

    def _timeout(self) -> q.Duration | None:
        return parse_duration(self._cursor) if self._cursor.accept("TIMEOUT") else None

    def _run(self) -> s.Statement:
        self._cursor.expect("SCRIPT")
        return s.RunScript(self._cursor.string())
