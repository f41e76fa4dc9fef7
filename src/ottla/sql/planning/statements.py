"""CREATE … AS SELECT, INSERT INTO … SELECT and queries that are asked: what each reads, does with a row, and writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ottla.sql.catalogue import Catalogue, Layout, Source
from ottla.sql.definitions import check_name, check_timestamp, layout_of
from ottla.sql.errors import SqlError
from ottla.sql.plan import Named, Node, QueryPlan, ReadSource, nodes
from ottla.sql.planning.aggregation import aggregated
from ottla.sql.planning.keys import Wanted, key_and_value, key_columns
from ottla.sql.planning.projection import items_of, typed
from ottla.sql.planning.references import check_columns, resolved
from ottla.sql.planning.relations import check_no_aggregates, exploded, filtered, relation_of
from ottla.sql.properties import OF_AS_SELECT, with_clause
from ottla.sql.schema import LogicalSchema, SqlColumn
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree import statements as s


@dataclass(frozen=True, slots=True)
class _Analysed:
    """A query's rows, what is made of each, and which of that the key has to be."""

    root: Node
    items: tuple[Named, ...]
    key: Wanted
    what: str
    rekeyed: bool


def plan_create_as(statement: s.CreateAs, catalogue: Catalogue, settings: Mapping[str, str], number: int) -> QueryPlan:
    """The plan of CREATE … AS SELECT, which writes a new source; raises SqlError in ksqlDB's words."""
    given = with_clause(statement.properties, OF_AS_SELECT)
    found = _analysed(statement.query, catalogue)
    _check_kind(statement.kind, found.root.kind)
    _check_persistent(statement.query)
    key, value = key_and_value(found.items, found.key, root=found.root, what=found.what, sink=statement.name)
    schema = _schema(key, value)
    if statement.query.partition_by == (e.NullLiteral(),) and given.key_format not in (None, "NONE"):
        raise SqlError("Key format specified for stream without key columns.")
    layout = layout_of(given, schema, settings, found.root.layout)
    check_name(statement.kind, statement.name, catalogue.sources.get(statement.name), statement.or_replace)
    check_timestamp(given, schema)
    id_ = f"C{statement.kind[0]}AS_{statement.name}_{number}"
    sink = Source(
        statement.kind,
        statement.name,
        given.topic or statement.name,
        schema,
        layout,
        given.timestamp,
        given.timestamp_format,
        window=found.root.window,
        partitions=given.partitions or _partitions(found.root),
        made_by=id_,
    )
    return QueryPlan(id_, found.root, key, value, sink, found.rekeyed)


def plan_insert(statement: s.InsertInto, catalogue: Catalogue, number: int) -> QueryPlan:
    """The plan of INSERT INTO … SELECT, which writes a stream that is there; raises SqlError."""
    sink = catalogue.source(statement.name)
    if sink.kind != "STREAM":
        raise SqlError("INSERT INTO can only be used to insert into a stream. " + f"{sink.name} is a table.")
    if sink.read_only:
        raise SqlError(f"Cannot insert into read-only {sink.kind.lower()}: {sink.name}")
    found = _analysed(statement.query, catalogue)
    _check_kind("STREAM", found.root.kind)
    _check_persistent(statement.query)
    key, value = key_and_value(found.items, found.key, root=found.root, what=found.what, sink=statement.name)
    made, wanted = _schema(key, value), LogicalSchema((*sink.schema.key, *sink.schema.value))
    if [each.type for each in made.columns] != [each.type for each in wanted.columns] or len(key) != len(wanted.key):
        raise SqlError(
            f"Incompatible schema between results and sink.\nResult schema is {made}\nSink schema is {wanted}"
        )
    return QueryPlan(f"INSERTQUERY_{number}", found.root, key, value, sink, found.rekeyed)


def plan_select(query: q.Query, catalogue: Catalogue, settings: Mapping[str, str], id_: str) -> QueryPlan:
    """The plan of a query that is asked: all that it selects is in the value of `sink`, as JSON, and there is no key."""
    found = _analysed(query, catalogue, persistent=False)
    schema = _schema((), found.items)
    sink = Source(found.root.kind, id_, id_, schema, Layout("NONE", "JSON"), made_by=id_)
    return QueryPlan(id_, found.root, (), found.items, sink, found.rekeyed)


def _analysed(query: q.Query, catalogue: Catalogue, *, persistent: bool = True) -> _Analysed:
    node = relation_of(query, catalogue)
    if query.group_by is not None:
        table, selected, key = aggregated(query, node, persistent=persistent)
        return _Analysed(table, tuple(selected), key, "grouping expression", rekeyed=False)
    if query.partition_by is not None:
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
        raise SqlError(
            "Invalid result type. Your SELECT query produces a TABLE. "
            "PARTITION BY is only supported on streams: a table's rows cannot be given another key."
        )
    return _Analysed(root, named, partition_by, "partitioning expression", rekeyed=True)


def _partition_by(query: q.Query, node: Node) -> Wanted | None:
    """The expressions of PARTITION BY: none of them for NULL, None where the key stays."""
    if query.partition_by is None:
        return None
    if query.partition_by == (e.NullLiteral(),):
        return ()
    if e.NullLiteral() in query.partition_by:
        raise SqlError("PARTITION BY NULL takes no other expression beside it.")
    return tuple(resolved(each, node) for each in query.partition_by)


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


def _check_persistent(query: q.Query) -> None:
    if query.limit is not None:
        raise SqlError("LIMIT clause is not supported in persistent queries: it would never end.")
