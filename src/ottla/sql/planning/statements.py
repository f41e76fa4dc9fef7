"""CREATE … AS SELECT, INSERT INTO … SELECT and queries that are asked: what each reads, does with a row, and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.sql import rules
from ottla.sql.catalogue import Catalogue, Layout, Source
from ottla.sql.columns import check_key_type
from ottla.sql.definitions import check_name, check_timestamp, layout_of
from ottla.sql.errors import EvaluationError, SqlError
from ottla.sql.expressions import decimals
from ottla.sql.plan import Named, Node, QueryPlan, ReadSource, nodes
from ottla.sql.planning.aggregation import aggregated
from ottla.sql.planning.joins import TABLE_MOVED, WINDOWED_MOVED
from ottla.sql.planning.keys import Wanted, key_and_value, key_columns
from ottla.sql.planning.projection import items_of, typed
from ottla.sql.planning.references import check_columns, resolved, shown
from ottla.sql.planning.relations import check_no_aggregates, exploded, filtered, relation_of
from ottla.sql.planning.ruled import ruled
from ottla.sql.properties import OF_AS_SELECT, with_clause
from ottla.sql.schema import LogicalSchema, SqlColumn
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree import statements as s
from ottla.sql.types import DecimalType, SqlType, implicitly_casts

TOPIC_PREFIX = "ksql.output.topic.name.prefix"
"""The setting with what the topics of CREATE AS begin with whose statements name none."""


@dataclass(frozen=True, slots=True)
class _Analysed:
    """A query's rows, what is made of each, and which of that the key has to be."""

    root: Node
    items: tuple[Named, ...]
    key: Wanted
    what: str
    rekeyed: bool
    texts: tuple[str, ...] = ()

    def divided(self, sink: str) -> tuple[tuple[Named, ...], tuple[Named, ...]]:
        """The key and the value of a sink's rows; raises SqlError where a part of the key is not selected once."""
        return key_and_value(self.items, self.key, root=self.root, what=self.what, sink=sink, texts=self.texts)


def plan_create_as(statement: s.CreateAs, catalogue: Catalogue, settings: Mapping[str, str], number: int) -> QueryPlan:
    """The plan of CREATE … AS SELECT, which writes a new source; raises SqlError in ksqlDB's words."""
    given = with_clause(statement.properties, OF_AS_SELECT)
    found = _analysed(statement.query, catalogue, settings)
    _check_kind(statement.kind, found.root.kind)
    key, value = found.divided(statement.name)
    schema = _schema(key, value)
    if statement.query.partition_by == (e.NullLiteral(),) and given.key_format not in (None, "NONE"):
        raise SqlError("Key format specified for stream without key columns.")
    for each in key:
        check_key_type(each.name, each.type)
    layout = layout_of(given, schema, settings, found.root.layout)
    known = catalogue.sources.get(statement.name)
    check_name(statement.kind, statement.name, known, statement.or_replace)
    if known is not None and rules.hold(rules.STRICT):
        _check_writable(known)
    check_timestamp(given, schema)
    id_ = f"C{statement.kind[0]}AS_{statement.name}_{number}"
    sink = Source(
        statement.kind,
        statement.name,
        given.topic or settings.get(TOPIC_PREFIX, "") + statement.name,
        schema,
        layout,
        given.timestamp,
        given.timestamp_format,
        window=None if found.rekeyed else found.root.window,
        partitions=given.partitions or _partitions(found.root),
        made_by=id_,
    )
    return QueryPlan(id_, found.root, key, value, sink, found.rekeyed, _strict_times(settings))


def plan_insert(
    statement: s.InsertInto, catalogue: Catalogue, number: int, settings: Mapping[str, str] | None = None
) -> QueryPlan:
    """The plan of INSERT INTO … SELECT, which writes a stream that is there; raises SqlError."""
    sink = catalogue.source(statement.name)
    if sink.kind != "STREAM":
        raise SqlError("INSERT INTO can only be used to insert into a stream. " + f"{sink.name} is a table.")
    if sink.schema.headers:
        raise SqlError(f"Cannot insert into {sink.name} because it has header columns")
    _check_writable(sink)
    found = _analysed(statement.query, catalogue, settings or {})
    if found.root.kind != "STREAM":
        raise SqlError(
            f"Incompatible data sink and query result. Data sink ({sink.name}) type is KSTREAM but select query result is "
            "KTABLE."
        )
    key, value = found.divided(statement.name)
    made, wanted = _schema(key, value), LogicalSchema((*sink.schema.key, *sink.schema.value))
    pairs = [
        (_literal_in(each, column.type), column) for each, column in zip((*key, *value), wanted.columns, strict=False)
    ]
    if (
        len(made.columns) != len(wanted.columns)
        or len(key) != len(wanted.key)
        or not all(each.name == column.name and implicitly_casts(each.type, column.type) for each, column in pairs)
    ):
        raise SqlError(
            f"Incompatible schema between results and sink.\nResult schema is {made}\nSink schema is {wanted}"
        )
    taken = tuple(_cast(each, column.type) for each, column in pairs)
    id_ = f"INSERTQUERY_{number}"
    rekeyed = found.rekeyed or taken[: len(key)] != key
    return QueryPlan(
        id_, found.root, taken[: len(key)], taken[len(key) :], sink, rekeyed, _strict_times(settings or {})
    )


def _check_writable(sink: Source) -> None:
    """Raise SqlError where a query would write a source stream or table, which is there to be read."""
    if sink.read_only:
        raise SqlError(f"Cannot insert into read-only {sink.kind.lower()}: {sink.name}")


_NUMBER_LITERALS = (e.IntegerLiteral, e.LongLiteral, e.DoubleLiteral, e.DecimalLiteral)


def _literal_in(named: Named, type_: SqlType) -> Named:
    """A number that stands in the statement as a decimal of the sink's; one that has too many digits keeps its own type."""
    bare = named.expression.value if isinstance(named.expression, e.Sign) else named.expression
    if not isinstance(type_, DecimalType) or not isinstance(bare, _NUMBER_LITERALS):
        return named
    try:
        digits = decimals.type_of_value(decimals.parsed(str(bare.value)))
    except EvaluationError:
        return named  # it is infinite
    return _cast(named, type_) if implicitly_casts(digits, type_) else Named(named.name, named.expression, digits)


def _cast(named: Named, type_: SqlType) -> Named:
    """A column in the sink's type."""
    return named if named.type == type_ else Named(named.name, e.Cast(named.expression, type_), type_)


def plan_select(query: q.Query, catalogue: Catalogue, settings: Mapping[str, str], id_: str) -> QueryPlan:
    """The plan of a query that is asked: all that it selects is in the value of `sink`, as JSON, and there is no key."""
    if query.order_by:
        raise SqlError("ORDER BY is for pull queries, which end: leave EMIT CHANGES out, and ask tables.")
    found = _analysed(query, catalogue, settings, persistent=False)
    schema = _schema((), found.items)
    sink = Source(found.root.kind, id_, id_, schema, Layout("NONE", "JSON"), made_by=id_)
    return QueryPlan(id_, found.root, (), found.items, sink, found.rekeyed, _strict_times(settings))


def _analysed(
    query: q.Query, catalogue: Catalogue, settings: Mapping[str, str], *, persistent: bool = True
) -> _Analysed:
    query = ruled(query, settings)
    node = relation_of(query, catalogue, persistent=persistent)
    if persistent and query.limit is not None:
        raise SqlError("Persistent queries do not support LIMIT clauses: they read on for ever.")
    _check_value_formats(query, node)
    if query.group_by is not None:
        table, selected, key = aggregated(query, node, persistent=persistent, settings=settings)
        texts = tuple(shown(resolved(each, node)) for each in query.group_by)
        return _Analysed(table, tuple(selected), key, "grouping expression", rekeyed=False, texts=texts)
    if query.partition_by is not None:
        if not query.partition_by and rules.hold(rules.STRICT):
            raise SqlError("PARTITION BY requires at least one expression")
        for each in query.partition_by:
            check_columns(
                each,
                node.scope,
                "PARTITION BY",
                " '{name}' must be a column in the source schema since PARTITION BY is applied on the input.",
            )
    items = items_of(query, node, persistent=persistent)
    check_no_aggregates(items, query)
    node = filtered(node, query.where)
    root, items = exploded(node, items)
    partition_by = _partition_by(query, node)
    named = tuple(typed(items, root))
    if partition_by is None:
        return _Analysed(root, named, key_columns(root), "key column", rekeyed=False)
    if node.kind == "TABLE":
        _check_table_key(node, partition_by)
        return _Analysed(root, named, key_columns(root), "key column", rekeyed=False)
    moves = not partition_by or partition_by != key_columns(root)
    if root.window is not None and not rules.hold(rules.STRICT):
        moves = True  # the result had no windows, whatever it was partitioned by
    elif root.window is not None and moves:
        raise SqlError(WINDOWED_MOVED)
    return _Analysed(root, named, partition_by, "partitioning expression", rekeyed=moves)


def _partition_by(query: q.Query, node: Node) -> Wanted | None:
    """The expressions of PARTITION BY: none of them for NULL, None where the key stays."""
    if query.partition_by is None:
        return None
    if query.partition_by == (e.NullLiteral(),):
        return ()
    if e.NullLiteral() in query.partition_by:
        raise SqlError("Cannot PARTITION BY multiple columns including NULL")
    return tuple(resolved(each, node) for each in query.partition_by)


THROWS_ON_INVALID_TIMES = "ksql.timestamp.throw.on.invalid"


def _strict_times(settings: Mapping[str, str]) -> bool:
    return settings.get(THROWS_ON_INVALID_TIMES, "false").lower() == "true"


def _check_table_key(node: Node, partition_by: Wanted) -> None:
    """Raise SqlError where a table's rows are to have another key than they have."""
    if partition_by == key_columns(node):
        return
    names = ", ".join(field.name for field in node.key)
    wanted = ", ".join(map(shown, partition_by)) or "NULL"
    raise SqlError(TABLE_MOVED.format(names, f"[{wanted}]"))


def _schema(key: tuple[Named, ...], value: tuple[Named, ...]) -> LogicalSchema:
    return LogicalSchema(
        (
            *(SqlColumn(each.name, each.type, "key") for each in key),
            *(SqlColumn(each.name, each.type) for each in value),
        )
    )


def _partitions(root: Node) -> int | None:
    """How many partitions the leftmost source has: a sink has as many unless told otherwise."""
    return next(node.source.partitions for node in nodes(root) if isinstance(node, ReadSource))


def _check_kind(wanted: str, made: str) -> None:
    if wanted != made:
        raise SqlError(
            f"Invalid result type. Your SELECT query produces a {made}. "
            f"Please use CREATE {made} AS SELECT statement instead."
        )


def _check_value_formats(query: q.Query, node: Node) -> None:
    """Raise SqlError where rows would go through a topic in the KAFKA format, which holds one column."""
    kafka = [
        each.alias
        for each in nodes(node)
        if isinstance(each, ReadSource) and each.source.layout.value_format == "KAFKA"
    ]
    what = "JOIN" if query.joins else "GROUP BY" if query.group_by is not None else None
    if kafka and what is not None:
        raise SqlError(
            f"Source(s) {', '.join(kafka)} are using the 'KAFKA' value format. This format does not yet support {what}.\n"
            "It holds one column, and is meant for keys. Write the rows in another format first: CREATE STREAM … "
            "WITH (VALUE_FORMAT='JSON') AS SELECT * FROM …"
        )
