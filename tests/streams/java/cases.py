"""All cases: each topology with random inputs."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator
from typing import Any

from tests.streams.java import join_topologies, operator_topologies, topologies
from tests.streams.java.inputs import random_inputs
from tests.streams.java.topologies import Plan

__all__ = ["GROUPS", "cases"]

GROUPS: dict[str, Callable[[], Iterator[Plan]]] = {
    **{name: getattr(topologies, name) for name in topologies.__all__},
    **{name: getattr(join_topologies, name) for name in join_topologies.__all__},
    **{name: getattr(operator_topologies, name) for name in operator_topologies.__all__},
}
"""The groups of topologies, by operator."""

_OPTIONS = ("sequence_only",)
"""`sequence_only` says why a case has other final values in batches and with caches."""


def cases(group: str, seeds: int = 1, first: int = 0, count: int | None = None) -> list[dict[str, Any]]:
    """Return a group's cases: each of its topologies with inputs of `seeds` seeds, of `count` records if that is given."""
    found = []
    for name, steps, topics, options in GROUPS[group]():
        given = {key: value for key, value in options.items() if key not in _OPTIONS}
        if count is not None:
            given["count"] = count
        for seed in range(first, first + seeds):
            inputs = random_inputs(zlib.crc32(name.encode()) + seed, topics, **given)
            case: dict[str, Any] = {"name": name, "seed": seed, "topology": steps, "inputs": inputs}
            case.update({key: options[key] for key in _OPTIONS if key in options})
            found.append(case)
    return found
