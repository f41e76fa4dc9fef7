"""BranchedKStream: a stream divided; each record goes to the first branch whose predicate holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.streams.dsl.parameters import Branched
from ottla.streams.dsl.steps import Expression, Place, function
from ottla.streams.errors import TopologyError
from ottla.streams.functions import Function
from ottla.streams.plan import operations as op
from ottla.streams.plan.graph import Step
from ottla.streams.plan.names import validated
from ottla.streams.plan.topology_builder import TopologyBuilder

if TYPE_CHECKING:
    from ottla.streams.dsl.kstream import KStream

__all__ = ["BranchedKStream"]

K = TypeVar("K")
V = TypeVar("V")


class BranchedKStream(Generic[K, V]):
    """Collects branches; `default_branch` or `no_default_branch` ends it and returns them by name."""

    def __init__(self, place: Place, name: str | None) -> None:
        self._place = place
        self._name = place.plan.names.given_or(name, "KSTREAM-BRANCH-")
        self._predicates: list[Function | None] = []
        self._children: list[str] = []
        self._branches: dict[str, KStream[K, V]] = {}
        self._ended = False

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_operation(self._name, op.Branch(tuple(self._predicates), tuple(self._children)), parents)

        self._step = place.plan.add(place.step, Step(self._name, write))

    def branch(
        self,
        predicate: Callable[[V], bool] | Callable[[K, V], bool] | Expression,
        *,
        name: str | None = None,
        to: Callable[[KStream[K, V]], Any] | None = None,
        branched: Branched | None = None,
    ) -> BranchedKStream[K, V]:
        """Add a branch. It is called after the split's name and its own, or its number (from 1).

        `to(stream)` takes the branch on; what it returns stands under the branch's name, nothing if it returns None.
        """
        made = function(self._name, predicate, "the predicate", self._place)
        self._add(made, branched or Branched(name, to), len(self._predicates) + 1)
        return self

    def default_branch(
        self,
        *,
        name: str | None = None,
        to: Callable[[KStream[K, V]], Any] | None = None,
        branched: Branched | None = None,
    ) -> dict[str, KStream[K, V]]:
        """End with a branch for all that went to no other (its number is 0), and return the branches by name."""
        self._add(None, branched or Branched(name, to), 0)
        self._ended = True
        return self._branches

    def no_default_branch(self) -> dict[str, KStream[K, V]]:
        """End without a default: what goes to no branch is dropped. Returns the branches by name."""
        self._ended = True
        return self._branches

    def _add(self, predicate: Function | None, given: Branched, number: int) -> None:
        from ottla.streams.dsl.kstream import KStream

        if self._ended:
            raise TopologyError(self._name, "the split has been ended: expected no further branch")
        child = validated(f"{self._name}{number if given.name is None else given.name}")
        self._predicates.append(predicate)
        self._children.append(child)
        plan = self._place.plan
        plan.names.processor(child)  # a number is used up

        def write(topology: TopologyBuilder, parents: tuple[str, ...]) -> None:
            topology.add_operation(child, op.PassThrough(), parents)

        added = plan.add(self._step, Step(child, write))
        stream: KStream[K, V] = KStream(replace(self._place, step=added, name=child))
        if given.to is None:
            self._branches[child] = stream
        elif (made := given.to(stream)) is not None:
            self._branches[child] = made
