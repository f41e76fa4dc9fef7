"""Steps without state over a block: filter, map, flat map, branch and their kind.

A column expression is computed by Arrow's kernels, or value by value; a vectorised function gets whole arrays; any other
function is called for each record. What fails is not told here: the block goes record by record then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from ottla.streams.engine.columnar.flow import Flow
from ottla.streams.engine.columnar.values import Column, Unfit
from ottla.streams.engine.task import Node
from ottla.streams.expressions import columns_function
from ottla.streams.plan import operations
from ottla.streams.plan.evaluation import Evaluated

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ottla.streams.functions import Function

__all__ = ["STEPS", "Step", "branch_step", "computed"]

Step = Callable[[Flow], None]
Compute = Callable[[Flow], Column]


def _nothing(_flow: Flow) -> None:
    """What follows a node without children."""


def computed(node: Node, function: Function) -> Compute:
    """Return what computes a function's results for a block; raises Unfit where it reads more than key and value."""
    call = function.call
    if isinstance(call, Evaluated):
        return _expression(node, function, call)
    assert call is not None
    if function.vectorised:
        return _vectorised(node, call, with_key=function.with_key)
    if function.with_key:
        return lambda flow: Column.of_values(list(map(call, flow.key.listed(), flow.value.listed())))
    return lambda flow: Column.of_values(list(map(call, flow.value.listed())))


def _vectorised(node: Node, call: Callable[..., Any], *, with_key: bool) -> Compute:
    key_type, value_type = node.arrow_type("key") if with_key else None, node.arrow_type("value")

    def compute(flow: Flow) -> Column:
        arrays = [_typed(flow.value, value_type)]
        if with_key:
            arrays.insert(0, _typed(flow.key, key_type))
        found = call(*arrays)
        if isinstance(found, tuple):
            raise Unfit("a pair of arrays")
        return Column.of_array(found, len(flow))

    return compute


def _typed(column: Column, wanted: Any) -> pa.Array:
    array = column.array
    return array if array is not None and array.type == wanted else pa.array(column.listed(), wanted)


def _expression(node: Node, function: Function, call: Evaluated) -> Compute:
    """Return an expression over arrays of the types that it was made for; over lists where there are none."""
    if call.context:
        raise Unfit("an expression over a record's place")
    one, expression = node.call(function), call.expression()
    wanted = {name: kind for name, kind in call.columns if name in expression.columns()}
    over_arrays = None if call.serde is not None or call.is_flat else columns_function(expression)

    def compute(flow: Flow) -> Column:
        sides = {"key": flow.key, "value": flow.value}
        if over_arrays is not None and all(sides[name].kind == kind for name, kind in wanted.items()):
            found = over_arrays({name: sides[name].array for name in wanted}, len(flow))
            return Column.of_array(found, len(flow))
        return Column.of_values(list(map(one, flow.key.listed(), flow.value.listed())))

    return compute


# -- steps


def _marks(node: Node, function: Function, *, negate: bool) -> Callable[[Flow], NDArray[np.bool_]]:
    """Return what tells the rows for which a predicate holds."""
    compute = computed(node, function)

    def marks(flow: Flow) -> NDArray[np.bool_]:
        found = compute(flow)
        array = found.array
        if array is not None and pa.types.is_boolean(array.type):
            holds: NDArray[np.bool_] = array.fill_null(False).to_numpy(zero_copy_only=False)
        else:
            holds = np.fromiter(map(bool, found.listed()), np.bool_, len(flow))
        return ~holds if negate else holds

    return marks


def _filter(node: Node, forward: Step) -> Step:
    marks = _marks(node, node.operation.predicate, negate=node.operation.negate)
    return lambda flow: forward(flow.where(marks(flow)))


def _not_null_key(node: Node, forward: Step) -> Step:
    if not node.operation.drop:
        return forward

    def step(flow: Flow) -> None:
        missing = flow.key.missing()
        forward(flow if missing is None else flow.where(~missing))

    return step


def _map_values(node: Node, forward: Step) -> Step:
    compute = computed(node, node.operation.mapper)
    return lambda flow: forward(flow.of(flow.key, compute(flow)))


def _select_key(node: Node, forward: Step) -> Step:
    compute = computed(node, node.operation.mapper)
    return lambda flow: forward(flow.of(compute(flow), flow.value))


def _map(node: Node, forward: Step) -> Step:
    mapper, key_mapper = node.operation.mapper, node.operation.key_mapper
    if key_mapper is not None:
        of_key, of_value = computed(node, key_mapper), computed(node, mapper)
        return lambda flow: forward(flow.of(of_key(flow), of_value(flow)))
    if mapper.vectorised or isinstance(mapper.call, Evaluated):
        raise Unfit("pairs as columns")
    call = node.call(mapper)

    def step(flow: Flow) -> None:
        pairs = list(map(call, flow.key.listed(), flow.value.listed()))
        if not all(type(each) is tuple and len(each) == 2 for each in pairs):
            raise Unfit("a mapper returned no pair")
        keys, values = [each[0] for each in pairs], [each[1] for each in pairs]
        forward(flow.of(Column.of_values(keys), Column.of_values(values)))

    return step


def _flat_map(node: Node, forward: Step) -> Step:
    if node.operation.mapper.vectorised:
        raise Unfit("lists of pairs as columns")
    call = node.call(node.operation.mapper)

    def step(flow: Flow) -> None:
        keys: list[Any] = []
        values: list[Any] = []
        counts: list[int] = []
        for key, value in zip(flow.key.listed(), flow.value.listed(), strict=True):
            before = len(keys)
            for new_key, new_value in call(key, value):
                keys.append(new_key)
                values.append(new_value)
            counts.append(len(keys) - before)
        rows = np.repeat(np.arange(len(flow)), counts)
        forward(flow.spread(rows, Column.of_values(keys), Column.of_values(values)))

    return step


def _flat_map_values(node: Node, forward: Step) -> Step:
    function = node.operation.mapper
    if function.vectorised:
        raise Unfit("lists as columns")
    spread = _flat_expression(node, function) if isinstance(function.call, Evaluated) else None
    call = node.call(function)

    def step(flow: Flow) -> None:
        found = None if spread is None else spread(flow)
        if found is None:
            lists = [list(each) for each in map(call, flow.key.listed(), flow.value.listed())]
            counts, values = [len(each) for each in lists], Column.of_values([one for each in lists for one in each])
        else:
            counts, values = found
        rows = np.repeat(np.arange(len(flow)), counts)
        forward(flow.spread(rows, flow.key.take(rows), values))

    return step


def _flat_expression(node: Node, function: Function) -> Callable[[Flow], tuple[Any, Column] | None]:
    """Return what computes an expression of lists: how many each record has, and all of their elements."""
    call = function.call
    assert isinstance(call, Evaluated)
    if call.context:
        raise Unfit("an expression over a record's place")
    expression = call.expression()
    wanted = {name: kind for name, kind in call.columns if name in expression.columns()}
    over_arrays = columns_function(expression)

    def spread(flow: Flow) -> tuple[Any, Column] | None:
        sides = {"key": flow.key, "value": flow.value}
        if not all(sides[name].kind == kind for name, kind in wanted.items()):
            return None
        found = over_arrays({name: sides[name].array for name in wanted}, len(flow))
        if not pa.types.is_list(found.type):
            return None
        counts = found.value_lengths().fill_null(0).to_numpy(zero_copy_only=False)
        values = found.flatten()
        return counts, Column.of_array(values, len(values))

    return spread


def _pass_through(_node: Node, forward: Step) -> Step:
    return forward


def branch_step(node: Node, children: dict[str, Step]) -> Step:
    """Every record goes to the first whose predicate holds."""
    cases = [
        (None if predicate is None else _marks(node, predicate, negate=False), children.get(child, _nothing))
        for predicate, child in zip(node.operation.predicates, node.operation.children, strict=True)
    ]

    def step(flow: Flow) -> None:
        for marks, forward in cases:
            if not len(flow):
                return
            if marks is None:
                forward(flow)
                return
            held = marks(flow)
            forward(flow.where(held))
            flow = flow.where(~held)

    return step


STEPS: dict[type, Callable[[Node, Step], Step]] = {
    operations.Filter: _filter,
    operations.NotNullKey: _not_null_key,
    operations.MapValues: _map_values,
    operations.SelectKey: _select_key,
    operations.Map: _map,
    operations.FlatMap: _flat_map,
    operations.FlatMapValues: _flat_map_values,
    operations.PassThrough: _pass_through,
}
"""By operation: from a node, and what follows it, to its step."""
