"""Sub-topologies: what is connected by nodes or by a shared store runs together, as one task per partition."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.streams.plan.nodes import Node, ProcessorNode, SourceNode, StoreSpec

__all__ = ["subtopologies"]


def subtopologies(nodes: Mapping[str, Node], stores: Mapping[str, StoreSpec]) -> tuple[tuple[str, ...], ...]:
    """Return the groups in the order of their first nodes, as Kafka numbers them; a global store's two nodes are a group."""
    parent = {name: name for name in nodes}

    def root(name: str) -> str:
        while parent[name] != name:
            parent[name] = parent[parent[name]]
            name = parent[name]
        return name

    owners: dict[str, str] = {}
    for node in nodes.values():
        if not isinstance(node, SourceNode):
            for other in node.parents:
                parent[root(node.name)] = root(other)
        if isinstance(node, ProcessorNode):
            for store in node.stores:
                if store in stores and not stores[store].is_global:
                    parent[root(node.name)] = root(owners.setdefault(store, node.name))
    groups: dict[str, list[str]] = {}
    for name in nodes:
        groups.setdefault(root(name), []).append(name)
    return tuple(tuple(each) for each in groups.values())
