"""FROM with joins: which can be made, by what, and what the key of their rows is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ottla.sql import rules
from ottla.sql.catalogue import Catalogue, Source
from ottla.sql.columns import check_key_type
from ottla.sql.errors import SqlError
from ottla.sql.expressions import type_of
from ottla.sql.formats.registry import WITH_SCHEMAS
from ottla.sql.plan import Field, Join, Node, ReadSource, nodes
from ottla.sql.planning.join_criteria import Criteria, Sources, criteria_of
from ottla.sql.planning.join_keys import chosen_key, is_keyed_by, keys_move, made_name, viable_keys
from ottla.sql.tree import expressions as e
from ottla.sql.tree import queries as q
from ottla.sql.tree.expression_text import expression_text
from ottla.sql.types import SqlType, backticked

_WORDS = {
    "INNER": "[INNER] JOIN",
    "LEFT": "LEFT [OUTER] JOIN",
    "RIGHT": "RIGHT [OUTER] JOIN",
    "OUTER": "[FULL] OUTER JOIN",
}
WINDOWED_MOVED = "Implicit repartitioning of windowed sources is not supported. See https://github.com/confluentinc/ksql/issues/4385."
_WINDOWED_FORMATS = (
    " As a result, ksqlDB does not support joins on windowed sources with Schema-Registry-enabled key formats (AVRO, "
    "JSON_SR, PROTOBUF) at this time. Please repartition your sources to use a different key format before performing "
    "the join."
)
TABLE_MOVED = (
    "Cannot repartition a TABLE source. If this is a join, joins on tables are only supported on the TABLE's key column "
    "{} instead of {}"
)


def joined(query: q.Query, catalogue: Catalogue, *, persistent: bool = False) -> Node:
    """The relation of a query with joins, the first two sources joined first; raises SqlError in ksqlDB's words."""
    sources = _sources(query, catalogue)
    criteria = [
        criteria_of(join, [each.alias for each in sources.read[: at + 1]], sources)
        for at, join in enumerate(query.joins)
    ]
    if persistent:
        refuse_windowed_tables(each.source for each in sources.read)
    node: Node = sources.read[0]
    for at, (join, found) in enumerate(zip(query.joins, criteria, strict=True)):
        last = at == len(criteria) - 1
        node = _Joining(node, found.right_source, join, found).node(sources, query if last else None, at)
    return node


def _sources(query: q.Query, catalogue: Catalogue) -> Sources:
    read: list[ReadSource] = []
    for each in (query.source, *(join.right for join in query.joins)):
        source = catalogue.source(each.name)
        known = next((other.source for other in read if other.source.name == source.name), None)
        if known is not None and len(read) > 1:
            raise SqlError(
                f"N-way joins do not support multiple occurrences of the same source. Source: '{source.name}'."
            )
        if known is not None:
            raise SqlError(f"Can not join '{source.name}' to '{known.name}': self joins are not yet supported.")
        read.append(ReadSource(source, each.alias))
    return Sources(tuple(read))


@dataclass(frozen=True, slots=True)
class _Joining:
    """Two relations that are to be joined."""

    left: Node
    right: ReadSource
    join: q.Join
    criteria: Criteria

    def node(self, sources: Sources, query: q.Query | None, number: int) -> Join:
        """The join; `query` is the last join's: its projection says which column is the key."""
        foreign = self._check_kinds()
        type_ = self._type()
        self._check_within()
        left_key, right_key, kind = self.criteria.left, self.criteria.right, self.join.kind
        if not foreign:
            self._check_keys()
            self._check_partitions()
        made: Field | None = None
        viable: tuple[Field, ...] = ()
        if foreign:
            key = self.left.key
        else:
            viable = () if kind == "OUTER" else viable_keys(self.left, left_key, self.right, right_key)
            name = made_name([field.name for field in sources.fields]) if query is not None else f"KSQL_JOIN_{number}"
            if not viable or (query is not None and _is_unmet(self.left) and _names(query, name)):
                made, viable = Field(None, name, type_), ()
            key = (made or (chosen_key(viable, query) if query is not None else viable[0]),)
            check_key_type(key[0].name, type_)
        return Join(self.left, self.right, kind, left_key, right_key, self.join.within, made, key, viable, foreign)

    # -- what is refused

    def _check_kinds(self) -> bool:
        """Raise SqlError for what cannot be joined; True where it is by a foreign key."""
        criteria, kind = self.criteria, self.join.kind
        if self.left.kind == "STREAM" and self.right.kind == "STREAM":
            return False
        names = f"Got {criteria.left_source.source.name} {_WORDS[kind]} {self.right.source.name}."
        if self.left.kind == "STREAM":
            if kind == "OUTER":
                raise SqlError(f"Invalid join type: full-outer join not supported for stream-table join. {names}")
            if kind == "RIGHT":
                raise SqlError(
                    f"Invalid join type encountered: {_WORDS[kind]}. A stream has no right join with a table."
                )
            if not _is_key(criteria.right, self.right):
                raise SqlError(
                    "Invalid join condition: stream-table joins require to join on the table's primary key. "
                    + criteria.got
                )
            return False
        if self.right.kind == "STREAM":
            raise SqlError(
                f"Invalid join order: table-stream joins are not supported; only stream-table joins. {names}"
            )
        if not _is_key(criteria.right, self.right):
            raise SqlError(
                "Invalid join condition: table-table joins require to join on the primary key of the right input table. "
                + criteria.got
            )
        if _is_key(criteria.left, criteria.left_source):
            return False
        self._check_foreign(names)
        return True

    def _check_foreign(self, names: str) -> None:
        if self.join.kind == "OUTER":
            raise SqlError(
                f"Invalid join type: full-outer join not supported for foreign-key table-table join. {names}"
            )
        if self.join.kind == "RIGHT":
            raise SqlError("RIGHT OUTER JOIN on a foreign key is not supported")
        if not isinstance(self.left, ReadSource):
            raise SqlError(
                "Invalid join condition: foreign-key table-table joins are not supported as part of n-way joins. "
                + self.criteria.got
            )

    def _type(self) -> SqlType:
        left, right = type_of(self.criteria.left, self.left.scope), type_of(self.criteria.right, self.right.scope)
        if left != right or left is None:
            raise SqlError(f"Invalid join condition: types don't match. {self.criteria.got_types(left, right)}")
        return left

    def _check_within(self) -> None:
        streams = self.left.kind == self.right.kind == "STREAM"
        if streams and self.join.within is None:
            raise SqlError(
                "Stream-Stream joins must have a WITHIN clause specified. None was provided. To learn about how to "
                "specify a WITHIN clause with a stream-stream join, please visit: https://docs.confluent.io/current/"
                "ksql/docs/syntax-reference.html#create-stream-as-select"
            )
        if not streams and self.join.within is not None:
            both, end = ("Stream-Table", "join") if self.left.kind == "STREAM" else ("Table-Table", "Table-Table join")
            raise SqlError(
                f"A window definition was provided for a {both} join. These joins are not windowed. Please drop the "
                f"window definition (ie. the WITHIN clause) and try to execute your {end} again."
            )
        within = self.join.within
        if within is not None and within.before.ms + within.after.ms < 0:
            raise SqlError("Window endTime (i.e. beforeMs+afterMs) must not be smaller than window startTime.")
        if within is not None and within.grace is not None and within.grace.ms < 0:
            raise SqlError("Grace period must not be negative.")

    def _check_keys(self) -> None:
        """Raise SqlError for a side that cannot be moved to where the other one's rows are."""
        sides = (self.left, self.criteria.left), (self.right, self.criteria.right)
        stays = next((side for side, key in sides if is_keyed_by(side, key)), self.left)
        for side, key in sides:
            if not is_keyed_by(side, key):
                _refuse_other_key(side, key)
            elif side.window is None:
                continue
            elif not rules.hold(rules.STRICT):
                if side is self.left and keys_move(side.layout, self.right.layout):
                    raise SqlError(WINDOWED_MOVED + _WINDOWED_FORMATS)
            elif stays.layout.key_format in WITH_SCHEMAS:
                if side.kind == "TABLE":  # the windows of a stream's keys go along
                    raise SqlError(WINDOWED_MOVED + _WINDOWED_FORMATS)
            elif side.window != stays.window or keys_move(side.layout, stays.layout):
                raise SqlError(WINDOWED_MOVED)

    def _check_partitions(self) -> None:
        one, other = next(node for node in nodes(self.left) if isinstance(node, ReadSource)), self.right
        left, right = one.source.partitions, other.source.partitions
        if left is None or right is None or left == right:
            return
        named = backticked(one.alias), backticked(other.alias)
        raise SqlError(
            f"Can't join {named[0]} with {named[1]} since the number of partitions don't match. "
            f"{named[0]} partitions = {left}; {named[1]} partitions = {right}. "
            "Please repartition either one so that the number of partitions match."
        )


def _refuse_other_key(side: Node, key: e.Expression) -> None:
    """Raise SqlError where rows are to be joined by another key than theirs, and cannot be moved."""
    if side.kind == "TABLE":
        named = ", ".join(field.name for field in side.key)
        raise SqlError(TABLE_MOVED.format(named, expression_text(key)))
    if side.window is not None:
        raise SqlError(WINDOWED_MOVED)


def refuse_windowed_tables(sources: Iterable[Source]) -> None:
    """Raise SqlError where a query that goes on for ever reads a table whose keys are within windows."""
    if any(source.kind == "TABLE" and source.window is not None for source in sources):
        raise SqlError("KSQL does not support persistent queries on windowed tables.")


def _is_key(expression: e.Expression, source: ReadSource) -> bool:
    """True for the only column of a source's key."""
    names = [field.name for field in source.key]
    return isinstance(expression, e.Column) and names == [expression.name]


def _is_unmet(node: Node) -> bool:
    """True for rows of which no source's column need be the key."""
    return isinstance(node, Join) and node.made_key is not None


def _names(query: q.Query, name: str) -> bool:
    """True where a projection asks for the key that a join makes."""
    return any(isinstance(item, q.Selected) and item.expression == e.Column(name) for item in query.select)
