"""Column expressions of a plan as Python functions: which can be evaluated without Spark, and the plan in which they are.

An expression has the types of what flows into its step: those of the serdes, and behind an expression without serde that of
its result. `key` and `value` can be read everywhere, a joiner's `key`, `left` and `right`; `timestamp`, `topic`, `partition`
and `offset` only in front of all state, where they are those of the record that came in.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from ottla.streams.expressions import Expression, Kind, Refused, compiled, kind_of, kinds
from ottla.streams.expressions.bound import cast
from ottla.streams.functions import Function
from ottla.streams.plan import operations as ops
from ottla.streams.plan.nodes import Node, ProcessorNode, SinkNode, SourceNode
from ottla.streams.plan.stage_nodes import expressions_of, is_stateless, key_serde, value_serde
from ottla.streams.plan.topology import Topology
from ottla.streams.serdes.basic import Serde
from ottla.streams.serdes.internal import ResponseSerde
from ottla.streams.serdes.json import JsonSerde

__all__ = ["Evaluated", "can_evaluate", "evaluated", "side_kind"]

CONTEXT = {"timestamp": kinds.TIMESTAMP, "topic": kinds.STRING, "partition": kinds.INT, "offset": kinds.BIGINT}
UNKNOWN = Kind("value of unknown type")
_JOINERS = (ops.TableJoin, ops.StreamStreamJoin, ops.StreamTableJoin, ops.StreamGlobalJoin, ops.ForeignKeyResolve)
_BY_FOREIGN_KEY = (*(ops.ForeignKeyRegister, ops.ForeignKeyReceive, ops.ForeignKeyRespond, ops.ForeignKeyRightChanged),)
"""Steps that forward what only the join itself reads."""
_PLAIN = ("boolean", "tinyint", "smallint", "int", "bigint", "float", "double", "string", "binary", "void")
"""Results that are in Python what every serde of their type takes."""


@dataclass(frozen=True)
class Evaluated:
    """An expression as a call: `(key, value)`, or a joiner's `(key, left, right)`. Picklable; made a function when used."""

    text: str
    columns: tuple[tuple[str, Kind], ...]
    """The columns that it is called with, in order."""
    context: tuple[str, ...] = ()
    """Which of `CONTEXT` it reads beside them."""
    to: Kind | None = None
    """What its result is converted to."""
    serde: Serde | None = None
    """The serde whose Python values the results become: those of a dataclass."""
    is_flat: bool = False
    """Whether the result is a list of results, of which there is none for null."""

    def expression(self) -> Expression:
        """Return the typed expression."""
        known = {**dict(self.columns), **{name: CONTEXT[name] for name in self.context}}
        found = compiled(self.text, known)
        return found if self.to is None else replace(found, bound=cast(found.bound, self.to))

    def bound(self, record: Callable[[], Any]) -> Callable[..., Any]:
        """Return the call, for a task whose current record `record()` returns."""
        names = tuple(name for name, _ in self.columns)
        call = self.expression().function((*names, *self.context))
        if self.context:
            call = _with_context(call, self.context, record)
        serde = self.serde
        if isinstance(serde, JsonSerde):
            made, finish = call, serde.typed if serde.type is not None else _without_nulls
            return lambda *arguments: finish(made(*arguments))
        return _listing(call) if self.is_flat else call

    def __call__(self, *arguments: Any) -> Any:
        """Compute one record's result."""
        return self.bound(_nowhere)(*arguments)


def _listing(call: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arguments: call(*arguments) or ()


def _nowhere() -> Any:
    raise TypeError("an expression over the record's place was called without a record")


def _with_context(call: Callable[..., Any], context: tuple[str, ...], record: Callable[[], Any]) -> Callable[..., Any]:
    def made(*arguments: Any) -> Any:
        found = record()
        return call(
            *arguments, *(found.timestamp * 1000 if name == "timestamp" else getattr(found, name) for name in context)
        )

    return made


def _without_nulls(value: Any) -> Any:
    """Leave out fields that are null, as Spark writes a struct into untyped JSON."""
    if isinstance(value, dict):
        return {name: _without_nulls(each) for name, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


def can_evaluate(topology: Topology) -> list[str]:
    """Return why some of a plan's expressions cannot be evaluated without Spark, each reason with its step; none if all."""
    return _Evaluation(topology, topology.nodes).reasons()


def evaluated(topology: Topology, names: Collection[str] | None = None) -> Topology:
    """Return a plan with functions in the place of its expressions, or of those of some nodes.

    Raises Refused, with the step's name and what is not known, for an expression that cannot be evaluated.
    """
    found = _Evaluation(topology, topology.nodes if names is None else names)
    reasons = found.reasons()
    if reasons:
        raise Refused("; ".join(reasons))
    return replace(topology, nodes=found.nodes) if found.changed else topology


def side_kind(topology: Topology, parents: tuple[str, ...], side: str) -> Kind | None:
    """Return the type of the keys or values that nodes forward, as expressions know it; None where it is not known."""
    found = _Evaluation(topology, ())._side(parents, side)
    return None if found is UNKNOWN or found.held else found


class _Evaluation:
    def __init__(self, topology: Topology, names: Collection[str]) -> None:
        self.topology = topology
        self.names = frozenset(names)
        self.nodes: dict[str, Node] = {}
        self.changed = False
        self.results: dict[tuple[str, str], Kind] = {}
        """By node and side, what an expression's result is where it has no serde of its own."""
        self._reasons: list[str] = []
        self._made = False

    def reasons(self) -> list[str]:
        """Look at all nodes; return what cannot be."""
        if not self._made:
            self._made = True
            for name, node in self.topology.nodes.items():
                self.nodes[name] = node
                if isinstance(node, ProcessorNode) and any(expressions_of(node.operation)):
                    self._look_at(node, replaces=name in self.names)
        return self._reasons

    def _look_at(self, node: ProcessorNode, *, replaces: bool) -> None:
        try:
            operation = self._operation(node)
        except Refused as problem:
            if replaces:
                self._reasons.append(f"step {node.name}: {problem}")
            return
        if replaces:
            self.changed = True
            self.nodes[node.name] = replace(node, operation=operation)

    def _operation(self, node: ProcessorNode) -> Any:
        """Return a node's operation with functions in the place of its expressions."""
        found: Any = node.operation
        changes: dict[str, Any] = {}
        for each in fields(found):
            given = getattr(found, each.name)
            if isinstance(given, Function) and given.is_native:
                changes[each.name] = self._function(node, given, each.name)
            elif isinstance(given, tuple) and any(isinstance(item, Function) and item.is_native for item in given):
                changes[each.name] = tuple(
                    self._function(node, item, each.name) if isinstance(item, Function) and item.is_native else item
                    for item in given
                )
            elif isinstance(given, ops.Aggregator) and given.argument is not None and given.argument.is_native:
                changes[each.name] = replace(given, argument=self._function(node, given.argument, "argument"))
        return replace(found, **changes)

    def _function(self, node: ProcessorNode, function: Function, what: str) -> Function:
        if not isinstance(function.expression, str):
            raise Refused("a PySpark Column is not known here: give SQL text")
        columns = self._columns(node, what)
        context = self._context(node)
        known = {**dict(columns), **context}
        expression = compiled(function.expression, known)
        read = tuple(name for name in context if name in expression.columns())
        to, serde = self._result(node, what, expression.kind)
        flat = isinstance(node.operation, ops.FlatMapValues)
        return Function(call=Evaluated(function.expression, columns, read, to, serde, flat), with_key=True)

    # -- what flows

    def _columns(self, node: ProcessorNode, what: str) -> tuple[tuple[str, Kind], ...]:
        operation = node.operation
        if isinstance(operation, _JOINERS) and what == "joiner":
            left, right = self._joined(node)
            return (("key", self._side(node.parents, "key")), ("left", left), ("right", right))
        return (("key", self._side(node.parents, "key")), ("value", self._side(node.parents, "value")))

    def _side(self, parents: tuple[str, ...], side: str) -> Kind:
        """Return the type of a side, of which nothing can be asked where it is not known."""
        try:
            return self._kind(parents, side)
        except Refused:
            return UNKNOWN

    def _joined(self, node: ProcessorNode) -> tuple[Kind, Kind]:
        """Return the types of a join's two sides."""
        operation: Any = node.operation
        own = self._side(node.parents, "value")
        if isinstance(operation, ops.StreamStreamJoin):
            mine, theirs = self._stored(operation.own), self._stored(operation.other)
            return (mine, theirs) if operation.is_left else (theirs, mine)
        if isinstance(operation, ops.TableJoin):
            other = self._side((operation.other,), "value")
            return (own, other) if operation.is_left else (other, own)
        if isinstance(operation, ops.StreamTableJoin):
            return own, self._side((operation.table,), "value")
        if isinstance(operation, ops.StreamGlobalJoin):
            return own, self._stored(operation.store)
        assert isinstance(operation, ops.ForeignKeyResolve)
        answers = {value_serde(self.topology, {}, each) for each in node.parents}
        right = answers.pop() if len(answers) == 1 else None
        theirs = kind_of(right.value) if isinstance(right, ResponseSerde) else UNKNOWN
        return self._side((operation.left,), "value"), theirs

    def _stored(self, name: str) -> Kind:
        return kind_of(self.topology.stores[name].value)

    def _context(self, node: ProcessorNode) -> Mapping[str, Kind]:
        return CONTEXT if is_stateless(node) and all(map(self._is_front, node.parents)) else {}

    def _is_front(self, name: str) -> bool:
        node = self.topology.nodes[name]
        if isinstance(node, SourceNode):
            return not any(topic in self.topology.repartition_topics for topic in node.topics)
        return is_stateless(node) and all(map(self._is_front, node.parents))

    def _kind(self, parents: tuple[str, ...], side: str) -> Kind:
        """Return the type of what nodes forward, which is the same of all."""
        found = {self._behind(each, side) for each in parents}
        if len(found) != 1:
            raise Refused(f"the {side} is of several types: {', '.join(sorted(map(str, found)))}")
        return found.pop()

    def _behind(self, name: str, side: str) -> Kind:
        node = self.topology.nodes[name]
        if isinstance(node, SourceNode):
            return kind_of(node.key if side == "key" else node.value)
        assert isinstance(node, ProcessorNode), f"{name} forwards nothing"
        operation = node.operation
        if isinstance(operation, _BY_FOREIGN_KEY):
            raise Refused(f"the {side} behind {name}, a join by foreign key, is not known here")
        if side == "key" and isinstance(operation, ops.WindowAggregate | ops.SessionAggregate):
            fields = (("key", self._kind(node.parents, side)), ("start_ms", kinds.BIGINT), ("end_ms", kinds.BIGINT))
            return Kind("struct", fields=fields, held="object")
        if isinstance(operation, _JOINERS) and side == "value":
            return self._made_of_two(node)
        made = _makes(operation, side)
        if made is not None and made.is_native and getattr(operation, "store", None) is None:
            return self._result_kind(node, made, side)
        if not _replaces(operation, side):
            return self._kind(node.parents, side)
        serde = key_serde(self.topology, {}, name) if side == "key" else value_serde(self.topology, {}, name)
        return kind_of(serde)

    def _made_of_two(self, node: ProcessorNode) -> Kind:
        """Return the type of what a join makes: as its table is kept, else as its joiner's expression says."""
        operation: Any = node.operation
        serde = self._kept(node.name) if isinstance(operation, ops.ForeignKeyResolve) else self._merged(node.name)
        if serde is not None:
            return kind_of(serde)
        text = operation.joiner.expression
        if not isinstance(text, str):
            raise Refused(f"the value behind {node.name}, a join with a Python function, is not known here")
        kind = compiled(text, dict(self._columns(node, "joiner"))).kind
        to, serde = self._result(node, "joiner", kind)
        return kind_of(serde) if serde is not None else to or kind

    def _result_kind(self, node: ProcessorNode, made: Function, side: str) -> Kind:
        """Return the type of an expression's results, which the expressions behind it see."""
        known = (node.name, side)
        if known not in self.results:
            if not isinstance(made.expression, str):
                raise Refused("a PySpark Column is not known here: give SQL text")
            what = "key_mapper" if side == "key" and isinstance(node.operation, ops.Map) else "mapper"
            columns = {**dict(self._columns(node, what)), **self._context(node)}
            kind = compiled(made.expression, columns).kind
            if kind.name == "array" and isinstance(node.operation, ops.FlatMapValues):
                assert kind.element is not None
                kind = kind.element
            serde = getattr(node.operation, side, None)
            if serde is not None and kind_of(serde) != kind:
                raise Refused(
                    f"the {side} is {kind} by the step before and {kind_of(serde)} by its serde: say which by cast"
                )
            self.results[known] = kind
        return self.results[known]

    # -- results

    def _result(self, node: ProcessorNode, what: str, kind: Kind) -> tuple[Kind | None, Serde | None]:
        """Return what a result is converted to, and the serde whose Python values it becomes."""
        operation: Any = node.operation
        if what in ("predicate", "predicates"):
            if kind.name != "boolean":
                raise Refused(f"a predicate of type {kind} is not known here")
            return None, None
        if what in ("argument", "extractor") or (what == "key_mapper" and isinstance(operation, ops.StreamGlobalJoin)):
            _check_plain(kind)
            return None, None
        if isinstance(operation, ops.FlatMapValues):
            if kind.name != "array" or kind.element is None:
                raise Refused(f"flat_map_values of {kind}: expected an array")
            to, serde = self._fitting(kind.element, operation.value)
            if to is not None or serde is not None:
                raise Refused(f"an array of {kind.element} by serde {operation.value} is not known here")
            return None, None
        side = "key" if what == "key_mapper" or isinstance(operation, ops.SelectKey) else "value"
        return self._fitting(kind, self._serde(node, side))

    def _serde(self, node: ProcessorNode, side: str) -> Serde | None:
        operation: Any = node.operation
        spec = self.topology.stores.get(getattr(operation, "store", None) or "")
        if side == "value" and spec is not None:
            return spec.value
        is_resolved = isinstance(operation, ops.ForeignKeyResolve)  # its own serde is that of the left table's values
        found: Serde | None = None if is_resolved else getattr(operation, side, None)
        if found is None and isinstance(operation, ops.TableJoin):
            found = self._merged(node.name)
        if is_resolved:
            found = self._kept(node.name)
        return found or self._written(node.name, side)

    def _kept(self, name: str) -> Serde | None:
        """Return the serde of the store in which a table behind a node is kept, if one is."""
        for node in self.topology.nodes.values():
            if isinstance(node, ProcessorNode) and name in node.parents and isinstance(node.operation, ops.TableSource):
                spec = self.topology.stores.get(node.operation.store or "")
                return None if spec is None else spec.value
        return None

    def _merged(self, name: str) -> Serde | None:
        """Return the serde of a joined table's store."""
        for node in self.topology.nodes.values():
            if (
                isinstance(node, ProcessorNode)
                and name in node.parents
                and isinstance(node.operation, ops.TableJoinMerge)
            ):
                spec = self.topology.stores.get(node.operation.store or "")
                return None if spec is None else spec.value
        return None

    def _written(self, name: str, side: str) -> Serde | None:
        """Return the serde with which what a step makes is written, where one alone is known."""
        found = set(self._writers(name, side))
        return found.pop() if len(found) == 1 else None

    def _writers(self, name: str, side: str) -> Iterator[Serde]:
        for node in self.topology.nodes.values():
            if isinstance(node, SourceNode) or name not in node.parents:
                continue
            if isinstance(node, SinkNode):
                serde = node.key if side == "key" else node.value
                if serde is not None:
                    yield serde
            elif not _replaces(node.operation, side):
                yield from self._writers(node.name, side)

    def _fitting(self, kind: Kind, serde: Serde | None) -> tuple[Kind | None, Serde | None]:
        if serde is None:
            _check_plain(kind)
            return None, None
        whole = kind.held or kind.name == "variant" or not isinstance(serde, JsonSerde)
        if whole and kind == kind_of(serde) and kind.held in ("", "object"):
            return None, None  # as it came
        if isinstance(serde, JsonSerde):
            if kind.name in ("struct", "array") or serde.type is None or kind == kind_of(serde):
                _check_json(kind)
                return None, serde
            raise Refused(f"a result of type {kind} for serde {serde.name} is not known here")
        wanted = kind_of(serde)
        if wanted == kind or kind.name == "void":
            return None, None
        numbers = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
        if kind.name in numbers and wanted.name in numbers:
            return wanted, None
        raise Refused(f"a result of type {kind} for serde {serde.name} is not known here: convert it by cast")


def _makes(operation: Any, side: str) -> Function | None:
    """Return the function that makes a step's key or value anew; None where it passes it on, or has no one function."""
    if side == "key":
        if isinstance(operation, ops.SelectKey):
            return operation.mapper
        return operation.key_mapper if isinstance(operation, ops.Map) else None
    makes_values = (ops.MapValues, ops.Map, ops.FlatMapValues, ops.TableMapValues)
    return operation.mapper if isinstance(operation, makes_values) else None


def _replaces(operation: Any, side: str) -> bool:
    """True for a step behind which a side is not what came."""
    if side == "key":
        return isinstance(operation, ops.Map | ops.SelectKey | ops.FlatMap | ops.Process | ops.TableRegroup)
    passes = (
        *(ops.Filter, ops.NotNullKey, ops.SelectKey, ops.Peek, ops.Foreach, ops.PassThrough, ops.Branch),
        *(ops.TableFilter, ops.TableToStream, ops.Suppress, ops.TableSource, ops.StreamToTable, ops.WindowStore),
        *(ops.TableJoinMerge, ops.TablePassThrough),
    )
    return not isinstance(operation, passes)


def _check_plain(kind: Kind) -> None:
    if kind.name not in _PLAIN or kind.held:
        raise Refused(f"a result of type {kind} without a serde is not known here: give one, or convert it by cast")


def _check_json(kind: Kind) -> None:
    if kind.name in ("float", "double", "decimal", "timestamp", "binary", "variant") or kind.held:
        if kind.name == "double":
            return
        raise Refused(f"{kind} written as JSON is not known here: convert it by cast")
    if kind.element is not None:
        _check_json(kind.element)
    for _, each in kind.fields:
        _check_json(each)
