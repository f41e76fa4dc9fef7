"""Statements and queries as text: SQL that parses to the same again, in one canonical form."""

from __future__ import annotations

from typing import assert_never

from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree import statements as s
from ottla.sql.tree.expression_text import expression_text, quoted, string_text


def statement_text(statement: s.Statement) -> str:
    """A statement as SQL, without the semicolon."""
    match statement:
        case s.CreateSource() | s.CreateAs() | s.DropSource() | s.AlterSource() | s.AssertSource():
            return _of_source(statement)
        case s.InsertInto(name, query, properties):
            return f"INSERT INTO {quoted(name)}{_with(properties)} {query_text(query, persistent=True)}"
        case s.InsertValues(name, columns, values):
            return f"INSERT INTO {quoted(name)}{_names(columns)} VALUES ({_listed(values)})"
        case s.AssertValues(name, columns, values, tombstone):
            words = ("ASSERT NULL VALUES", "KEY") if tombstone else ("ASSERT VALUES", "VALUES")
            return f"{words[0]} {quoted(name)}{_names(columns)} {words[1]} ({_listed(values)})"
        case s.QueryStatement(query):
            return query_text(query)
        case s.CreateType() | s.DropType() | s.CreateConnector() | s.DropConnector():
            return _of_other(statement)
        case s.SetProperty() | s.UnsetProperty() | s.DefineVariable() | s.UndefineVariable() | s.RunScript():
            return _of_session(statement)
        case s.AssertTopic() | s.AssertSchema():
            return _assertion(statement)
        case _:
            return _question(statement)


def query_text(query: q.Query, *, persistent: bool = False) -> str:
    """A query as SQL; of a `persistent` one EMIT CHANGES goes without saying, and is said."""
    parts = [f"SELECT {', '.join(_selected(item) for item in query.select)}", f"FROM {_source(query.source)}"]
    parts += [_join(join) for join in query.joins]
    if query.window is not None:
        parts.append(f"WINDOW {window_text(query.window)}")
    if query.where is not None:
        parts.append(f"WHERE {_sql(query.where)}")
    if query.group_by is not None:
        parts.append(f"GROUP BY {_grouping(query.group_by)}")
    if query.partition_by is not None:
        parts.append(f"PARTITION BY {_grouping(query.partition_by)}")
    if query.having is not None:
        parts.append(f"HAVING {_sql(query.having)}")
    if query.order_by:
        parts.append(f"ORDER BY {', '.join(map(_ordered, query.order_by))}")
    if query.emit is not None:
        parts.append(f"EMIT {query.emit}")
    if query.limit is not None:
        parts.append(f"LIMIT {query.limit}")
    assert not (persistent and query.emit is None), "a persistent query has its EMIT"
    return " ".join(parts)


def _ordered(order: q.Ordered) -> str:
    nulls = "" if order.nulls_first is None else f" NULLS {'FIRST' if order.nulls_first else 'LAST'}"
    return f"{_sql(order.expression)}{' DESC' if order.descending else ''}{nulls}"


def duration_text(duration: q.Duration) -> str:
    """A length of time: `30 SECONDS`."""
    return f"{duration.count} {duration.unit}"


def window_text(window: q.Window) -> str:
    """A WINDOW clause without its first word, as ksqlDB prints it."""
    size = f"{'' if window.kind == 'SESSION' else 'SIZE '}{duration_text(window.size)}"
    parts = [size] if window.advance is None else [size, f"ADVANCE BY {duration_text(window.advance)}"]
    if window.retention is not None:
        parts.append(f"RETENTION {duration_text(window.retention)}")
    if window.grace is not None:
        parts.append(f"GRACE PERIOD {duration_text(window.grace)}")
    return f"{window.kind} ({', '.join(parts)})"


def _sql(expression: e.Expression) -> str:
    return expression_text(expression, quoted)


def _listed(expressions: tuple[e.Expression, ...]) -> str:
    return ", ".join(_sql(each) for each in expressions)


def _grouping(expressions: tuple[e.Expression, ...]) -> str:
    """One expression stands alone, since brackets around it would be its own."""
    return _listed(expressions) if len(expressions) == 1 else f"({_listed(expressions)})"


def _selected(item: q.SelectItem) -> str:
    match item:
        case q.Selected(expression, alias):
            return _sql(expression) if alias is None else f"{_sql(expression)} AS {quoted(alias)}"
        case q.AllOf(source):
            return "*" if source is None else f"{quoted(source)}.*"
        case q.AllFields(base):
            return f"{_sql(base)}->*"
        case _:
            assert_never(item)


def _source(source: q.Source) -> str:
    return quoted(source.name) if source.alias == source.name else f"{quoted(source.name)} AS {quoted(source.alias)}"


_JOIN_WORDS = {"INNER": "INNER", "LEFT": "LEFT OUTER", "RIGHT": "RIGHT OUTER", "OUTER": "FULL OUTER"}


def _join(join: q.Join) -> str:
    within = ""
    if join.within is not None:
        window = join.within
        within = f" WITHIN ({duration_text(window.before)}, {duration_text(window.after)})"
        within += "" if window.grace is None else f" GRACE PERIOD {duration_text(window.grace)}"
    return f"{_JOIN_WORDS[join.kind]} JOIN {_source(join.right)}{within} ON {_sql(join.on)}"


def _with(properties: s.Properties) -> str:
    if not properties:
        return ""
    return f" WITH ({', '.join(f'{quoted(name)}={_sql(value)}' for name, value in properties)})"


def _names(names: tuple[str, ...]) -> str:
    return f" ({', '.join(quoted(name) for name in names)})" if names else ""


def _columns(columns: tuple[s.ColumnDefinition, ...]) -> str:
    return f" ({', '.join(column_text(column) for column in columns)})" if columns else ""


def column_text(column: s.ColumnDefinition) -> str:
    """A column of CREATE."""
    ending = {"VALUE": "", "HEADER": f" HEADER({string_text(column.header or '')})"}.get(column.role, f" {column.role}")
    return f"{quoted(column.name)} {column.type.text(quoted)}{ending}"


def _of_source(
    statement: s.CreateSource | s.CreateAs | s.DropSource | s.AlterSource | s.AssertSource,
) -> str:
    kind, name = statement.kind, quoted(statement.name)
    match statement:
        case s.AssertSource():
            return f"ASSERT {kind} {name}{_columns(statement.columns)}{_with(statement.properties)}"
        case s.DropSource():
            ending = " DELETE TOPIC" if statement.delete_topic else ""
            return f"DROP {kind} {'IF EXISTS ' if statement.if_exists else ''}{name}{ending}"
        case s.AlterSource():
            added = ", ".join(f"ADD COLUMN {quoted(column)} {type_.text(quoted)}" for column, type_ in statement.added)
            return f"ALTER {kind} {name} {added}"
        case s.CreateSource() | s.CreateAs():
            words = f"CREATE {'OR REPLACE ' if statement.or_replace else ''}"
            words += "SOURCE " if isinstance(statement, s.CreateSource) and statement.read_only else ""
            words += f"{kind} {'IF NOT EXISTS ' if statement.if_not_exists else ''}{name}"
            if isinstance(statement, s.CreateSource):
                return f"{words}{_columns(statement.columns)}{_with(statement.properties)}"
            return f"{words}{_with(statement.properties)} AS {query_text(statement.query, persistent=True)}"
        case _:
            assert_never(statement)


def _of_other(statement: s.CreateType | s.DropType | s.CreateConnector | s.DropConnector) -> str:
    name = quoted(statement.name)
    match statement:
        case s.CreateType(_, type_, if_not_exists):
            return f"CREATE TYPE {'IF NOT EXISTS ' if if_not_exists else ''}{name} AS {type_.text(quoted)}"
        case s.CreateConnector(direction, _, properties, if_not_exists):
            return f"CREATE {direction} CONNECTOR {'IF NOT EXISTS ' if if_not_exists else ''}{name}{_with(properties)}"
        case s.DropType(_, if_exists):
            return f"DROP TYPE {'IF EXISTS ' if if_exists else ''}{name}"
        case s.DropConnector(_, if_exists):
            return f"DROP CONNECTOR {'IF EXISTS ' if if_exists else ''}{name}"
        case _:
            assert_never(statement)


def _of_session(
    statement: s.SetProperty | s.UnsetProperty | s.DefineVariable | s.UndefineVariable | s.RunScript,
) -> str:
    match statement:
        case s.SetProperty(name, value, system):
            return f"{'ALTER SYSTEM' if system else 'SET'} {string_text(name)}={string_text(value)}"
        case s.UnsetProperty(name):
            return f"UNSET {string_text(name)}"
        case s.DefineVariable(name, value):
            return f"DEFINE {name}={string_text(value)}"
        case s.UndefineVariable(name):
            return f"UNDEFINE {name}"
        case s.RunScript(file):
            return f"RUN SCRIPT {string_text(file)}"
        case _:
            assert_never(statement)


def _assertion(statement: s.AssertTopic | s.AssertSchema) -> str:
    timeout = "" if statement.timeout is None else f" TIMEOUT {duration_text(statement.timeout)}"
    words = f"ASSERT {'' if statement.exists else 'NOT EXISTS '}"
    if isinstance(statement, s.AssertTopic):
        return f"{words}TOPIC {string_text(statement.topic)}{_with(statement.properties)}{timeout}"
    subject = "" if statement.subject is None else f" SUBJECT {string_text(statement.subject)}"
    identifier = "" if statement.id is None else f" ID {_sql(statement.id)}"
    return f"{words}SCHEMA{subject}{identifier}{timeout}"


def _question(statement: s.Show | s.Describe | s.Explain | s.PrintTopic | s.Control) -> str:
    match statement:
        case s.Show(what, extended):
            return f"SHOW {what}{' EXTENDED' if extended else ''}"
        case s.Describe(what, name, extended):
            words = {"SOURCE": "", "FUNCTION": " FUNCTION", "CONNECTOR": " CONNECTOR"}.get(what, f" {what}")
            named = "" if name is None else f" {quoted(name)}"
            return f"DESCRIBE{words}{named}{' EXTENDED' if extended else ''}"
        case s.Explain(query_id, inner):
            return f"EXPLAIN {quoted(query_id or '') if inner is None else statement_text(inner)}"
        case s.PrintTopic(topic, from_beginning, interval, limit):
            beginning = " FROM BEGINNING" if from_beginning else ""
            every = "" if interval is None else f" INTERVAL {interval}"
            return f"PRINT {string_text(topic)}{beginning}{every}{'' if limit is None else f' LIMIT {limit}'}"
        case s.Control(action, query_id):
            return f"{action} {'ALL' if query_id is None else quoted(query_id)}"
        case _:
            assert_never(statement)
