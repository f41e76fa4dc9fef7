"""Where each step of a plan runs, when its results leave, and why: what `ottla streams explain` prints."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from ottla.streams.plan import operations as ops
from ottla.streams.plan.nodes import Node, ProcessorNode, SinkNode, SourceNode
from ottla.streams.plan.stage_nodes import functions_of, is_stateless, needs_columns
from ottla.streams.plan.stages import Stage, Stages, cut
from ottla.streams.plan.topology import Topology

__all__ = ["Explained", "explain", "explain_text"]

AT_ONCE = "each record, at once"
UPDATES = "updates: the last of each key in a micro-batch"
EVERY = "updates: every one"
ON_CLOSE = "once, when the window has closed"


@dataclass(frozen=True, slots=True)
class Explained:
    """One step."""

    node: str
    stage: str
    how: str
    """source, native (Spark's operators), python (in Arrow batches), stateful (Python with state), shuffle or sink."""
    emission: str
    why: str


def explain(topology: Topology, *, stream_time: str = "auto", every_update: bool = False) -> tuple[Explained, ...]:
    """Return a line for each step and stage; raises UnsupportedPlan for a plan that cannot be run."""
    stages = cut(topology, stream_time=stream_time, every_update=every_update)
    lines = (line for stage in stages.stages for line in _explain_stage(stage, stages))
    return tuple(replace(each, emission=EVERY) if every_update and each.emission == UPDATES else each for each in lines)


def explain_text(topology: Topology, *, stream_time: str = "auto", every_update: bool = False) -> str:
    """Return the lines as text, stage by stage."""
    lines: list[str] = []
    for each in explain(topology, stream_time=stream_time, every_update=every_update):
        if not lines or f"Stage {each.stage}" not in lines:
            lines += [f"Stage {each.stage}"]
        lines.append(f"  {each.node}: {each.how}; {each.emission}" + (f" ({each.why})" if each.why else ""))
    return "\n".join(lines) + "\n"


def _explain_stage(stage: Stage, stages: Stages) -> Iterator[Explained]:
    for name in stage.nodes:
        how, why = _how(stage, name)
        yield Explained(name, stage.name, how, _emission(stage.plan.nodes[name]), stages.reasons.get(name, why))


def _how(stage: Stage, name: str) -> tuple[str, str]:
    node = stage.plan.nodes[name]
    if name in stage.fused:
        return "shuffle", "no step with state stands before its repartition topic, so there is none"
    if isinstance(node, SourceNode):
        return "source", ""
    if name == stage.aggregate:
        return "native", "Spark has this aggregate with Kafka's result"
    if stage.kind == "stateful" and isinstance(stage.topology.nodes.get(name), ProcessorNode | SinkNode):
        if isinstance(node, SinkNode):
            return "sink", ""
        return "stateful", _why_in_executor(node)
    if isinstance(node, SinkNode):
        return "sink", ""
    return _how_stateless(node)


def _why_in_executor(node: Node) -> str:
    return (
        "in the executor of the state beside it" if is_stateless(node) else "Spark has no operator with Kafka's meaning"
    )


def _how_stateless(node: Node) -> tuple[str, str]:
    functions = list(functions_of(node.operation)) if isinstance(node, ProcessorNode) else []
    if any(each.vectorised for each in functions):
        return "python", "a vectorised function: one call per batch"
    if functions and not needs_columns(node):
        return "python", "a Python function: one call per record"
    return "native", "an expression" if functions else ""


def _emission(node: Node) -> str:
    operation = node.operation if isinstance(node, ProcessorNode) else None
    if isinstance(operation, ops.WindowAggregate | ops.SessionAggregate) and operation.on_close:
        return ON_CLOSE
    if isinstance(operation, ops.Suppress):
        return (
            ON_CLOSE
            if operation.until == "window_close"
            else f"after {operation.wait_ms} ms, or when its buffer is full"
        )
    if (
        operation is None
        or is_stateless(node)
        or isinstance(operation, ops.Process | ops.WindowStore | ops.TableToStream)
    ):
        return AT_ONCE
    if isinstance(operation, ops.StreamStreamJoin):
        waits = operation.kind != "inner" and not operation.windows.unmatched_at_once
        return f"{AT_ONCE}; without partner, when the window has closed" if waits else AT_ONCE
    if isinstance(operation, ops.StreamTableJoin | ops.StreamGlobalJoin):
        return AT_ONCE
    return UPDATES
