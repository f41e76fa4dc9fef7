"""Sub-topologies: what is connected by nodes or by a shared store runs together, as one task per partition."""

from __future__ import annotations

from ottla.streams.plan.topology import ProcessorNode, SourceNode, Topology

__all__ = ["subtopologies"]


def subtopologies(topology: Topology) -> tuple[tuple[str, ...], ...]:
    """Return the groups in the order of their first nodes, as Kafka numbers them; a global store's two nodes are a group."""
    parent = {name: name for name in topology.nodes}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    owners: dict[str, str] = {}
    for node in topology.nodes.values():
        if not isinstance(node, SourceNode):
            for other in node.parents:
                parent[root(node.name)] = root(other)
        if isinstance(node, ProcessorNode):
            for store in node.stores:
                if store in topology.stores and not topology.stores[store].is_global:
                    parent[root(node.name)] = root(owners.setdefault(store, node.name))
    groups: dict[str, list[str]] = {}
    for name in topology.nodes:
        groups.setdefault(root(name), []).append(name)
    return tuple(tuple(each) for each in groups.values())
