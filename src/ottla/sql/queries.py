"""CREATE … AS SELECT and INSERT INTO … SELECT: what a query reads, does with each row, and writes, as a frozen plan.

Not run yet, and refused by name: joins, windows, GROUP BY, HAVING, table functions, and queries over tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, cast

from ottla.sql import functions
from ottla.sql.catalogue import Catalogue, Source
from ottla.sql.definitions import check_name, check_timestamp, layout_of
from ottla.sql.errors import SqlError, UnsupportedError
from ottla.sql.exploding import Exploded, lifted, with_calls
from ottla.sql.expressions import Scope, type_of
from ottla.sql.expressions.scope import at_text
from ottla.sql.properties import OF_AS_SELECT, with_clause
from ottla.sql.schema import PSEUDO_COLUMNS, SYSTEM_NAMES, LogicalSchema, SqlColumn
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree import statements as s
from ottla.sql.tree.expression_text import expression_text
from ottla.sql.types import BOOLEAN, SqlType, StructType


@dataclass(frozen=True, slots=True)
class QueryPlan:
    """A query of one source: the columns that it makes of each row that its condition lets through."""

    id: str
    source: Source
    alias: str
    where: e.Expression | None
    key: tuple[e.Expression, ...]
    value: tuple[e.Expression, ...]
    sink: Source
    calls: tuple[Exploded, ...] = ()
    """The calls of table functions in the projection, each a column behind those of `scope`."""

    @property
    def scope(self) -> Scope:
        """The columns of a row as it is read: those of the source, then the pseudo columns."""
        return scope_of(self.source, self.alias)


def scope_of(source: Source, alias: str) -> Scope:
    """The columns of a row of a source, and its pseudo columns."""
    columns = [(alias, column.name, column.type) for column in source.schema.columns]
    return Scope.of([*columns, *((alias, name, type_) for name, type_ in PSEUDO_COLUMNS)])


@dataclass(frozen=True, slots=True)
class _Selected:
    name: str
    expression: e.Expression
    type: SqlType


def plan_create_as(statement: s.CreateAs, catalogue: Catalogue, settings: Mapping[str, str], number: int) -> QueryPlan:
    """The plan of CREATE … AS SELECT, which writes a new source; raises SqlError in ksqlDB's words."""
    source = _read(statement.query, catalogue)
    given = with_clause(statement.properties, OF_AS_SELECT)
    if statement.kind != source.kind:
        if statement.kind == "TABLE":
            raise SqlError(
                "Invalid result type. Your SELECT query produces a STREAM. "
                "Please use CREATE STREAM AS SELECT statement instead."
            )
        raise SqlError(
            "Invalid result type. Your SELECT query produces a TABLE. "
            "Please use CREATE TABLE AS SELECT statement instead."
        )
    selected, calls = _selected(statement.query, source)
    _check_where(statement.query, source)
    key, value = _key_and_value(selected, source, statement.query, statement.name)
    schema = LogicalSchema(
        (
            *(SqlColumn(each.name, each.type, "key") for each in key),
            *(SqlColumn(each.name, each.type) for each in value),
        )
    )
    if _partition_by(statement.query) == () and given.key_format not in (None, "NONE"):
        raise SqlError("Key format specified for stream without key columns.")
    layout = layout_of(given, schema, settings, source.layout)
    check_name(statement.kind, statement.name, catalogue.sources.get(statement.name), statement.or_replace)
    check_timestamp(given, schema)
    id_ = f"C{statement.kind[0]}AS_{statement.name}_{number}"
    sink = Source(
        statement.kind, statement.name, given.topic or statement.name, schema, layout, given.timestamp, made_by=id_
    )
    return _plan(id_, source, statement.query, key, value, sink, calls)


def plan_insert(statement: s.InsertInto, catalogue: Catalogue, number: int) -> QueryPlan:
    """The plan of INSERT INTO … SELECT, which writes a stream that is there; raises SqlError."""
    sink = catalogue.source(statement.name)
    if sink.kind != "STREAM":
        raise SqlError("INSERT INTO can only be used to insert into a stream. " + f"{sink.name} is a table.")
    if sink.read_only:
        raise SqlError(f"Cannot insert into read-only {sink.kind.lower()}: {sink.name}")
    source = _read(statement.query, catalogue)
    selected, calls = _selected(statement.query, source)
    _check_where(statement.query, source)
    key, value = _key_and_value(selected, source, statement.query, statement.name)
    made = [
        *(SqlColumn(each.name, each.type, "key") for each in key),
        *(SqlColumn(each.name, each.type) for each in value),
    ]
    wanted = [*sink.schema.key, *sink.schema.value]
    if [each.type for each in made] != [each.type for each in wanted] or len(key) != len(sink.schema.key):
        raise SqlError(
            "Incompatible schema between results and sink.\n"
            f"Result schema is {LogicalSchema(tuple(made))}\nSink schema is {LogicalSchema(tuple(wanted))}"
        )
    return _plan(f"INSERTQUERY_{number}", source, statement.query, key, value, sink, calls)


def _plan(
    id_: str,
    source: Source,
    query: q.Query,
    key: list[_Selected],
    value: list[_Selected],
    sink: Source,
    calls: tuple[Exploded, ...],
) -> QueryPlan:
    return QueryPlan(
        id_,
        source,
        query.source.alias,
        query.where,
        tuple(each.expression for each in key),
        tuple(each.expression for each in value),
        sink,
        calls,
    )


def _read(query: q.Query, catalogue: Catalogue) -> Source:
    """The source of a query that can run; raises UnsupportedError for one that cannot yet."""
    source = catalogue.source(query.source.name)
    for feature, used in (
        ("a join", query.joins),
        ("a window", query.window),
        ("GROUP BY", query.group_by is not None),
        ("HAVING", query.having),
        ("LIMIT in a query that writes a topic", query.limit is not None),
        ("EMIT FINAL", query.emit == "FINAL"),
        ("a query over a table", source.kind == "TABLE"),
    ):
        if used:
            raise UnsupportedError(feature)
    return source


def _selected(query: q.Query, source: Source) -> tuple[list[_Selected], tuple[Exploded, ...]]:
    scope = scope_of(source, query.source.alias)
    found: list[_Selected] = []
    calls: list[Exploded] = []
    taken = _names_taken(query, source)
    for item in query.select:
        found.extend(_items(item, query, source, scope, taken, calls))
    _check_names(query, [each.name for each in found])
    return found, tuple(calls)


def _check_names(query: q.Query, names: list[str]) -> None:
    aliases = [item.alias for item in query.select if isinstance(item, q.Selected)]
    for name in names:
        if names.count(name) > 1:
            raise SqlError(f"The projection contains a duplicate column name: `{name}`.")
        if name in SYSTEM_NAMES and name in aliases:
            raise SqlError(f"`{name}` is a reserved column name. You cannot use it as an alias for a column.")
        if name in SYSTEM_NAMES:
            raise SqlError(f"Reserved column name in select: `{name}`. Please remove or alias the column.")


def _names_taken(query: q.Query, source: Source) -> set[str]:
    taken = {column.name for column in source.schema.columns}
    return taken | {item.alias for item in query.select if isinstance(item, q.Selected) and item.alias is not None}


def _items(
    item: q.SelectItem, query: q.Query, source: Source, scope: Scope, taken: set[str], calls: list[Exploded]
) -> Iterator[_Selected]:
    if isinstance(item, q.AllOf):
        if item.source not in (None, query.source.alias):
            raise SqlError(f"'{item.source}' is not a valid stream/table name or alias.")
        yield from _star(query, source, scope, taken)
        return
    if isinstance(item, q.AllFields):
        type_ = type_of(item.base, scope)
        if not isinstance(type_, StructType):
            raise SqlError(f"Cannot use '->*' on {expression_text(item.base)}: it is no STRUCT but {type_}")
        for name, field in type_.fields:
            yield _Selected(name, e.Dereference(item.base, name), field)
        return
    _refuse_aggregates(item.expression)
    expression = lifted(item.expression, scope, calls)
    found = type_of(expression, with_calls(scope, calls))
    if found is None:
        raise SqlError(
            "Can't infer a type of null. Please explicitly cast it to a required type, e.g. CAST(null AS VARCHAR)."
        )
    yield _Selected(item.alias or _generated(item.expression, taken), expression, found)


def _star(query: q.Query, source: Source, scope: Scope, taken: set[str]) -> Iterator[_Selected]:
    """What `*` is: with PARTITION BY the new key before all other columns."""
    partition_by = _partition_by(query) or ()
    first = [each.name for each in partition_by if isinstance(each, e.Column)]
    for expression in partition_by:
        type_ = _key_type(expression, scope)
        yield _Selected(_generated(expression, taken), expression, type_)
    for column in source.schema.columns:
        if column.name not in first:
            yield _Selected(column.name, e.Column(column.name), column.type)


def _partition_by(query: q.Query) -> tuple[e.Expression, ...] | None:
    """The expressions of PARTITION BY: none of them for NULL, None where the key stays."""
    if query.partition_by == (e.NullLiteral(),):
        return ()
    return query.partition_by


def _key_type(expression: e.Expression, scope: Scope) -> SqlType:
    """The type of an expression of PARTITION BY; raises SqlError in ksqlDB's words."""
    for column in _columns(expression):
        try:
            scope.find(column)
        except SqlError:
            name = column.name if column.source is None else f"{column.source}.{column.name}"
            raise SqlError(
                f"{at_text(column.at)}PARTITION BY column '{name}' cannot be resolved. '{name}' must be a column in the "
                "source schema since PARTITION BY is applied on the input."
            ) from None
    type_ = type_of(expression, scope)
    if type_ is None:
        raise SqlError("PARTITION BY NULL takes no other expression beside it.")
    return type_


def _columns(tree: object) -> Iterator[e.Column]:
    if isinstance(tree, e.Column):
        yield tree
    elif isinstance(tree, tuple):
        for item in tree:
            yield from _columns(item)
    else:
        for name in getattr(type(tree), "__dataclass_fields__", ()):
            yield from _columns(getattr(tree, name))


def _plain(tree: e.Expression, source: str | None = None) -> e.Expression:
    """The expression with every column of one source, or of none."""
    return cast(e.Expression, _requalified(tree, source))


def _requalified(tree: object, source: str | None) -> object:
    if isinstance(tree, e.Column):
        return e.Column(tree.name, source)
    if isinstance(tree, tuple):
        return tuple(_requalified(item, source) for item in tree)
    if not isinstance(tree, e.Expression):
        return tree
    parts: dict[str, Any] = {each.name: _requalified(getattr(tree, each.name), source) for each in fields(tree)}
    return replace(tree, **parts)


def _generated(expression: e.Expression, taken: set[str]) -> str:
    """The name of a column that was given none."""
    if isinstance(expression, e.Column):
        return expression.name
    if isinstance(expression, e.Dereference):
        name, at = expression.name, 0
        while name in taken:
            at += 1
            name = f"{expression.name}_{at}"
    else:
        at = 0
        while (name := f"KSQL_COL_{at}") in taken:
            at += 1
    taken.add(name)
    return name


def _refuse_aggregates(expression: object) -> None:
    """Raise where a projection calls what needs GROUP BY."""
    if isinstance(expression, e.Call) and functions.aggregate(expression.name) is not None:
        name = expression.name.upper()
        raise SqlError(f"Use of aggregate function {name} requires a GROUP BY clause. Aggregate function(s): {name}")
    for name in getattr(type(expression), "__dataclass_fields__", ()):
        inner = getattr(expression, name)
        for each in inner if isinstance(inner, tuple) else (inner,):
            _refuse_aggregates(each)


def _check_where(query: q.Query, source: Source) -> None:
    if query.where is None:
        return
    _refuse_aggregates(query.where)
    try:
        type_ = type_of(query.where, scope_of(source, query.source.alias))
    except UnsupportedError:
        raise
    except SqlError as error:
        raise SqlError(f"Error in WHERE expression: {error}") from None
    if type_ != BOOLEAN:
        shown = "NULL" if type_ is None else str(type_)
        raise SqlError(
            "Type error in WHERE expression: Should evaluate to boolean but is "
            f"{expression_text(query.where)} ({shown}) instead."
        )


def _key_and_value(
    selected: list[_Selected], source: Source, query: q.Query, sink: str
) -> tuple[list[_Selected], list[_Selected]]:
    """Which of what is selected is the key: PARTITION BY's expressions, or the source's key, each once and as it is."""
    partition_by = _partition_by(query)
    wanted = tuple(e.Column(each.name) for each in source.schema.key) if partition_by is None else partition_by
    key: list[_Selected] = []
    for expression in wanted:
        if partition_by is not None:
            _key_type(expression, scope_of(source, query.source.alias))
        found = [each for each in selected if _plain(each.expression) == _plain(expression)]
        if not found and partition_by is not None:
            _refuse_missing_partitioning(wanted, query.source.alias, sink)
        if not found:
            _refuse_missing_key(source, query.source.alias, sink)
        if len(found) > 1:
            names = " and ".join(sorted(each.name for each in found))
            raise SqlError(
                f"The projection contains a key column (`{_shown(expression)}`) more than once, aliased as: {names}.\n"
                "Each key column must only be in the projection once. If you intended to copy the key into the value, "
                "then consider using the AS_VALUE function to indicate which key reference should be copied."
            )
        key.append(found[0])
    value = [each for each in selected if each not in key]
    if not value:
        raise SqlError("The projection contains no value columns.")
    return key, value


def _shown(expression: e.Expression) -> str:
    return expression.name if isinstance(expression, e.Column) else expression_text(_plain(expression))


def _refuse_missing_partitioning(wanted: tuple[e.Expression, ...], alias: str, sink: str) -> None:
    texts = [expression_text(_plain(each, alias)) for each in wanted]
    several = "s" if len(texts) > 1 else ""
    listed = " and ".join(filter(None, (", ".join(texts[:-1]), texts[-1])))
    raise SqlError(
        f"Key{several} missing from projection (ie, SELECT). See https://cnfl.io/2LV7ouS.\n"
        f"The query used to build `{sink}` must include the partitioning expression{several} {listed} in its projection "
        f"(eg, SELECT {', '.join(texts)}...)."
    )


def _refuse_missing_key(source: Source, alias: str, sink: str) -> None:
    names = [column.name for column in source.schema.key]
    several = "s" if len(names) > 1 else ""
    listed = " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))
    raise SqlError(
        f"Key{several} missing from projection (ie, SELECT). See https://cnfl.io/2LV7ouS.\n"
        f"The query used to build `{sink}` must include the key column{several} {listed} in its projection "
        f"(eg, SELECT {', '.join(names)}...)."
    )
