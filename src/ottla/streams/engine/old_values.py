"""Which table processors must tell the old value with the new one (Kafka's `enableSendingOldValues`).

Re-grouping, joins and suppression ask for it; the request travels up to the processors that keep a table, because they know
what it was.
"""

from __future__ import annotations

from ottla.streams import operations
from ottla.streams.topology import ProcessorNode, SourceNode, Topology

__all__ = ["nodes_that_send_old_values"]

_ASK = (
    operations.TableRegroup,
    operations.TableJoin,
    operations.TableJoinMerge,
    operations.Suppress,
    operations.ForeignKeyRegister,
    operations.ForeignKeyRightChanged,
)
"""Operations whose parents must send old values."""


def nodes_that_send_old_values(topology: Topology) -> frozenset[str]:
    """Return the names of the processors that forward `Change.old`."""
    found: set[str] = set()
    for node in topology.nodes.values():
        if isinstance(node, ProcessorNode) and isinstance(node.operation, _ASK):
            for parent in node.parents:
                _enable(topology, parent, found)
    return frozenset(found)


def _enable(topology: Topology, name: str, found: set[str]) -> None:
    """Have a processor send old values, and those above it that it needs them from."""
    node = topology.nodes[name]
    if name in found or isinstance(node, SourceNode):
        return
    found.add(name)
    if isinstance(node, ProcessorNode) and _passes_on(node):
        for parent in node.parents:
            _enable(topology, parent, found)


def _passes_on(node: ProcessorNode) -> bool:
    """True for table processors that keep nothing themselves, so that their parents must know."""
    operation = node.operation
    if isinstance(operation, operations.TableFilter | operations.TableMapValues):
        return operation.store is None
    return isinstance(operation, operations.PassThrough)
