"""SELECT: what, from where, joined with what, in which windows."""

from __future__ import annotations

from typing import Literal

from ottla.sql.errors import SqlError
from ottla.sql.parser.cursor import Cursor
from ottla.sql.parser.expression_parser import ExpressionParser
from ottla.sql.parser.names import source_name
from ottla.sql.parser.type_parser import CustomTypes
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.words import unit_name


def parse_query(cursor: Cursor, custom: CustomTypes, *, persistent: bool) -> q.Query:
    """Read a query. A `persistent` one, which fills a topic, emits changes unless it says FINAL."""
    sources = _sources_ahead(cursor)
    reader = ExpressionParser(cursor, custom, sources)
    cursor.expect("SELECT")
    select = [_select_item(cursor, reader, sources)]
    while cursor.accept(","):
        select.append(_select_item(cursor, reader, sources))
    cursor.expect("FROM")
    source, joins = _relation(cursor, reader)
    window = parse_window(cursor) if cursor.accept("WINDOW") else None
    where = reader.condition() if cursor.accept("WHERE") else None
    group_by = _grouping(cursor, reader) if cursor.accept("GROUP", "BY") else None
    partition_by = _grouping(cursor, reader) if cursor.accept("PARTITION", "BY") else None
    having = reader.condition() if cursor.accept("HAVING") else None
    order_by = _ordering(cursor, reader) if not persistent and cursor.accept("ORDER", "BY") else ()
    emit = _emit(cursor)
    limit = reader.whole("LIMIT") if cursor.accept("LIMIT") else None
    if persistent and emit is None:
        emit = "CHANGES"
    return q.Query(tuple(select), source, joins, window, where, group_by, partition_by, having, emit, limit, order_by)


def _ordering(cursor: Cursor, reader: ExpressionParser) -> tuple[q.Ordered, ...]:
    """Read what a pull query's rows are ordered by."""
    found: list[q.Ordered] = []
    while not found or cursor.accept(","):
        expression = reader.value()
        descending = cursor.accept_any("ASC", "DESC") == "DESC"
        nulls = cursor.expect_any("FIRST", "LAST") == "FIRST" if cursor.accept("NULLS") else None
        found.append(q.Ordered(expression, descending, nulls))
    return tuple(found)


def _emit(cursor: Cursor) -> Literal["CHANGES", "FINAL"] | None:
    if not cursor.accept("EMIT"):
        return None
    return "FINAL" if cursor.expect_any("CHANGES", "FINAL") == "FINAL" else "CHANGES"


def _sources_ahead(cursor: Cursor) -> frozenset[str]:
    """The names that this query's FROM clause gives: they stand behind the expressions that use them."""
    start = cursor.position
    names: set[str] = set()
    depth = 0
    while cursor.token.kind != "end" and not cursor.is_word(";"):
        token = cursor.take()
        depth += (token.word in ("(", "[")) - (token.word in (")", "]")) if token.kind == "symbol" else 0
        if token.kind == "word" and token.word in ("FROM", "JOIN") and depth == 0 and cursor.is_name():
            names.update(_names_of_source(cursor))
    cursor.rewind(start)
    return frozenset(names)


def _names_of_source(cursor: Cursor) -> list[str]:
    names = [cursor.name()]
    cursor.accept("AS")
    if _is_alias(cursor):
        names.append(cursor.name())
    return names


def _is_alias(cursor: Cursor) -> bool:
    clause = cursor.are_words("EMIT", "CHANGES") or cursor.are_words("EMIT", "FINAL")
    clause = clause or cursor.are_words("PARTITION", "BY") or cursor.are_words("ORDER", "BY")
    return cursor.is_name() and not clause


def _select_item(cursor: Cursor, reader: ExpressionParser, sources: frozenset[str]) -> q.SelectItem:
    if cursor.accept("*"):
        return q.AllOf()
    if cursor.is_name() and cursor.ahead().word == "." and cursor.ahead(2).word == "*":
        name = cursor.name()
        cursor.expect(".", "*")
        if name not in sources:
            raise SqlError(f"'{name}' is not a valid stream/table name or alias.")
        return q.AllOf(name)
    expression = reader.condition()
    if cursor.accept("->", "*"):
        return q.AllFields(expression)
    if cursor.accept("AS"):
        return q.Selected(expression, cursor.name())
    return q.Selected(expression, cursor.name() if cursor.is_name() else None)


def _relation(cursor: Cursor, reader: ExpressionParser) -> tuple[q.Source, tuple[q.Join, ...]]:
    source = _source(cursor)
    joins: list[q.Join] = []
    while cursor.is_word("JOIN", "INNER", "LEFT", "RIGHT", "FULL"):
        joins.append(_join(cursor, reader))
    return source, tuple(joins)


def _source(cursor: Cursor) -> q.Source:
    name = source_name(cursor)
    if cursor.accept("AS") or _is_alias(cursor):
        return q.Source(name, source_name(cursor))
    return q.Source(name, name)


def _join(cursor: Cursor, reader: ExpressionParser) -> q.Join:
    word = cursor.accept_any("INNER", "LEFT", "RIGHT", "FULL")
    if word in ("LEFT", "RIGHT", "FULL"):
        cursor.accept("OUTER")
    cursor.expect("JOIN")
    kinds: dict[str | None, Literal["INNER", "LEFT", "RIGHT", "OUTER"]] = {
        "LEFT": "LEFT",
        "RIGHT": "RIGHT",
        "FULL": "OUTER",
    }
    right = _source(cursor)
    within = _within(cursor) if cursor.accept("WITHIN") else None
    if not cursor.is_word("ON"):
        cursor.unexpected(("'ON'",) if within else ("'WITHIN'", "'ON'"))
    cursor.take()
    return q.Join(kinds.get(word, "INNER"), right, reader.condition(), within)


def _within(cursor: Cursor) -> q.Within:
    if cursor.accept("("):
        before = parse_duration(cursor)
        cursor.expect(",")
        after = parse_duration(cursor)
        cursor.expect(")")
    else:
        before = after = parse_duration(cursor)
    grace = parse_duration(cursor) if cursor.accept("GRACE", "PERIOD") else None
    return q.Within(before, after, grace)


def parse_duration(cursor: Cursor) -> q.Duration:
    """Read a length of time: a number and its unit."""
    count = ExpressionParser(cursor, None, None).number()
    if not isinstance(count, e.IntegerLiteral | e.LongLiteral):
        raise SqlError(f'For input string: "{count.value}"')
    unit = unit_name(cursor.token.word) if cursor.token.kind == "word" else None
    if unit is None:
        cursor.near()
    cursor.take()
    return q.Duration(count.value, unit)


def parse_window(cursor: Cursor) -> q.Window:
    """Read a WINDOW clause behind its first word."""
    if not (cursor.is_word("TUMBLING", "HOPPING", "SESSION") and cursor.ahead().word == "("):
        if cursor.token.kind != "word" or cursor.ahead().word not in ("TUMBLING", "HOPPING", "SESSION"):
            cursor.near()
        cursor.take()  # a window's name, which nothing can speak of
    kind = cursor.expect_any("TUMBLING", "HOPPING", "SESSION")
    cursor.expect("(")
    if kind != "SESSION":
        cursor.expect("SIZE")
    size = parse_duration(cursor)
    advance = None
    if kind == "HOPPING":
        cursor.expect(",", "ADVANCE", "BY")
        advance = parse_duration(cursor)
    retention = parse_duration(cursor) if cursor.accept(",", "RETENTION") else None
    grace = parse_duration(cursor) if cursor.accept(",", "GRACE", "PERIOD") else None
    cursor.expect(")")
    return q.Window(kind, size, advance, retention, grace)  # type: ignore[arg-type]


def _grouping(cursor: Cursor, reader: ExpressionParser) -> tuple[e.Expression, ...]:
    """Read what is grouped by: values in a row, or all of them in one pair of brackets."""
    bracketed = _is_bracketed_list(cursor)
    if bracketed:
        cursor.take()
        if cursor.accept(")"):
            return ()
    found = [reader.value()]
    while cursor.accept(","):
        found.append(reader.value())
    if bracketed:
        cursor.expect(")")
    return tuple(found)


def _is_bracketed_list(cursor: Cursor) -> bool:
    """True where a bracket opens that holds several values (or none) and ends the clause; else it is an expression's."""
    depth = commas = index = 0
    while cursor.ahead(index).kind != "end":
        token = cursor.ahead(index)
        if token.kind == "symbol":
            depth += (token.word in ("(", "[")) - (token.word in (")", "]"))
            commas += token.word == "," and depth == 1
        if depth == 0:
            break
        index += 1
    follower = cursor.ahead(index + 1)
    ends = follower.word in (";", "PARTITION", "HAVING", "ORDER", "EMIT", "LIMIT") or follower.kind == "end"
    return index > 0 and ends and (commas > 0 or index == 1)
