"""Expressions in the place of functions: the engine's results stay those of Java's equal lambdas.

The cases are the goldens of `tests/streams/java`; each function of theirs that has an equal expression is replaced by it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import fields, replace
from typing import Any

import pytest

from ottla.streams import Function, ProcessorNode, Topology
from ottla.streams.expressions import Refused
from ottla.streams.plan.evaluation import can_evaluate, evaluated
from tests.peer.streams import functions as named
from tests.streams.java import compare
from tests.streams.java.cases import GROUPS
from tests.streams.java.goldens import read

PREDICATES = {
    "always": "true",
    "never": "false",
    "even": "value % 2 = 0",
    "positive": "value > 0",
    "below_5": "value < 5",
    "key_is_a": "key = 'a'",
    "key_not_b": "not key <=> 'b'",
    "value_set": "value is not null",
    "starts_x": "startswith(value, 'x')",
}
_TEXT = "coalesce(cast({0} as string), 'null')"
MAPPERS = {
    "same": "value",
    "double": "2 * value",
    "mod3": "value % 3",
    "text": _TEXT.format("value"),
    "upper": "upper(value)",
    "length": "length(value)",
    "parse": "cast(value as bigint)",
    "with_key": f"{_TEXT.format('key')} || ':' || {_TEXT.format('value')}",
    "drop_odd": "if(value % 2 = 0, value, null)",
    "key": "key",
    "key_prefix": "left(key, 1)",
    "key_x": f"concat({_TEXT.format('key')}, 'x')",
    "mod3_text": "cast(value % 3 as string)",
    "null_if_odd": "case when value % 2 = 0 then key end",
    "window_text": f"concat({_TEXT.format('key.key')}, '@', key.start_ms, '/', key.end_ms)",
    "window_key": "key.key",
    "words": "split(value, ' ')",
    "twice": "array(value, value)",
}
PAIRS = {
    "swap_text": (_TEXT.format("value"), "key"),
    "mod3_pair": (_TEXT.format("value % 3"), "value"),
    "prefix_pair": ("left(key, 1)", "value"),
    "window_pair": ("key.key", "value"),
}
JOINERS = {
    "pair": f"concat({_TEXT.format('left')}, '+', {_TEXT.format('right')})",
    "pair_key": f"concat({_TEXT.format('key')}, ':', {_TEXT.format('left')}, '+', {_TEXT.format('right')})",
    "sum": "coalesce(left, 0) + coalesce(right, 0)",
    "right": "right",
    "drop_x": f"if(left <=> 'x' or right <=> 'x', null, {_TEXT.format('left')} || '+' || {_TEXT.format('right')})",
}
KNOWN = {
    id(call): texts[name]
    for calls, texts in ((named.PREDICATES, PREDICATES), (named.MAPPERS, MAPPERS), (named.JOINERS, JOINERS))
    for name, call in calls.items()
    if name in texts
}
PAIRS_KNOWN = {id(named.MAPPERS[name]): pair for name, pair in PAIRS.items()}
used: Counter[str] = Counter()


def with_expressions(topology: Topology) -> Topology:
    """Return a plan with expressions for its functions, as far as there are equal ones that can be evaluated."""
    for name, node in topology.nodes.items():
        if isinstance(node, ProcessorNode):
            changed = replace(
                topology, nodes={**topology.nodes, name: replace(node, operation=_expressed(node.operation))}
            )
            try:
                topology = evaluated(changed, [name])
            except Refused:
                continue  # of another type than the expression's
            used.update([type(node.operation).__name__] if changed.nodes[name] != node else [])
    return topology


def _expressed(operation: Any) -> Any:
    changes: dict[str, Any] = {}
    for each in fields(operation):
        given = getattr(operation, each.name)
        if isinstance(given, Function):
            call = _named(given.call)
            if id(call) in PAIRS_KNOWN and hasattr(operation, "key_mapper"):
                key, value = PAIRS_KNOWN[id(call)]
                return replace(operation, mapper=Function(expression=value), key_mapper=Function(expression=key))
            if id(call) in KNOWN:
                changes[each.name] = Function(expression=KNOWN[id(call)])
        elif each.name == "predicates":
            changes[each.name] = tuple(
                Function(expression=KNOWN[id(item.call)]) if item is not None and id(item.call) in KNOWN else item
                for item in given
            )
    return replace(operation, **changes)


def _named(call: Any) -> Any:
    """Return a joiner that a lambda of `plans` stands around, or the call itself."""
    cells = getattr(call, "__closure__", None) or ()
    found = [each.cell_contents for each in cells if each.cell_contents in named.JOINERS.values()]
    return found[0] if found else call


CASES = [pytest.param(case, answer, id=f"{group}: {case['name']}") for group in GROUPS for case, answer in read(group)]


@pytest.fixture(autouse=True)
def expressed(monkeypatch: pytest.MonkeyPatch) -> None:
    build = compare.build
    monkeypatch.setattr(compare, "build", lambda steps: with_expressions(build(steps)))


@pytest.mark.parametrize(("case", "answer"), CASES)
def test_with_expressions_the_results_are_those_of_javas_lambdas(case: dict[str, Any], answer: dict[str, Any]) -> None:
    assert compare.differences(case, answer) == []


def test_every_kind_of_step_had_expressions() -> None:
    wanted = {"Filter", "MapValues", "Map", "SelectKey", "FlatMapValues", "Branch", "TableFilter", "TableMapValues"}
    wanted |= {"TableRegroup", "TableJoin", "StreamStreamJoin", "StreamTableJoin", "StreamGlobalJoin"}
    wanted |= {"ForeignKeyResolve"}
    topologies = [compare.build(case["topology"]) for group in GROUPS for case, _ in read(group)]
    assert all(can_evaluate(each) == [] for each in topologies)
    assert wanted <= set(used), sorted(wanted - set(used))
