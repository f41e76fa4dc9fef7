"""Which host has which work, as a fold: hosts come and go, works are wanted, and orders come out.

A *work* is one partition of one sub-topology of one application. A work belongs to one host at a time. It moves only after
its host has said that it has committed and let go, or has been fenced, which is said by whoever fenced it: a host that is
only silent may still commit. Works stay where they are as long as that is fair: they are weighed by what they have cost, and
one at a time moves, from the host that has most to the one that has least, where that makes the difference smaller by a
margin. Standbys are hosts that keep a copy of a work's state and do nothing with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

__all__ = ["Places", "StreamsWork", "orders", "standbys"]

COST_DEFAULT = 1.0
"""The cost of a work that was not measured yet."""
MARGIN = 0.2
"""A move is worth it where it makes the difference between two hosts smaller by this part of the larger load."""


class StreamsWork(NamedTuple):
    """One partition of a sub-topology."""

    application: str
    sub_topology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.application}/{self.sub_topology}_{self.partition}"


@dataclass(frozen=True, slots=True)
class Orders:
    """What is to be said to hosts now."""

    assign: Mapping[int, tuple[StreamsWork, ...]] = field(default_factory=dict)
    revoke: Mapping[int, tuple[StreamsWork, ...]] = field(default_factory=dict)
    follow: Mapping[int, tuple[StreamsWork, ...]] = field(default_factory=dict)
    """Works of whose state a host is to keep a copy from now on."""
    unfollow: Mapping[int, tuple[StreamsWork, ...]] = field(default_factory=dict)
    fence: tuple[int, ...] = ()
    """Hosts that are gone and may still commit: works wait until somebody has fenced them."""


@dataclass(frozen=True, slots=True)
class Places:
    """Who has what. `owners` is who may commit for a work; a work without owner may be given to any host."""

    works: frozenset[StreamsWork] = frozenset()
    """What is to run."""
    hosts: frozenset[int] = frozenset()
    """Hosts that take orders."""
    gone: frozenset[int] = frozenset()
    """Hosts that take none, and are not fenced."""
    owners: Mapping[StreamsWork, int] = field(default_factory=dict)
    leaving: frozenset[StreamsWork] = frozenset()
    """Works whose owner was told to let go."""
    costs: Mapping[StreamsWork, float] = field(default_factory=dict)
    """Seconds of a processor per second, or any other measure that adds up."""
    replicas: Mapping[StreamsWork, int] = field(default_factory=dict)
    """How many hosts beside its own are to keep a copy of a work's state; none where it is not named."""
    copies: Mapping[StreamsWork, frozenset[int]] = field(default_factory=dict)
    """Hosts that keep one, or were told to."""
    warm: Mapping[StreamsWork, frozenset[int]] = field(default_factory=dict)
    """Hosts whose copy has about everything: a work that moves there goes on at once."""

    def wanting(self, works: Iterable[StreamsWork], replicas: Mapping[StreamsWork, int] | None = None) -> Places:
        """Return the same with other works to run, and as many copies of their states."""
        return replace(self, works=frozenset(works), replicas=dict(replicas or {}))

    def joined(self, host: int) -> Places:
        """A host is there and has nothing: whatever it had before under this number is fenced by its start."""
        return replace(self._without(host), hosts=self.hosts | {host}, gone=self.gone - {host})

    def left(self, host: int) -> Places:
        """A host answers no more; what it has stays its own until it is fenced."""
        if host not in self.hosts:
            return self
        has_works = host in self.owners.values()
        gone = self.gone | {host} if has_works else self.gone
        return replace(self._without_copies(host), hosts=self.hosts - {host}, gone=gone)

    def fenced(self, host: int) -> Places:
        """A host that is gone can commit nothing more."""
        return replace(self._without(host), gone=self.gone - {host}) if host in self.gone else self

    def released(self, host: int, works: Iterable[StreamsWork]) -> Places:
        """A host has committed some works, or given them up, and does nothing more with them."""
        let_go = {each for each in works if self.owners.get(each) == host}
        owners = {each: owner for each, owner in self.owners.items() if each not in let_go}
        return replace(self, owners=owners, leaving=self.leaving - let_go)

    def measured(self, costs: Mapping[StreamsWork, float]) -> Places:
        """Return the same with newer costs."""
        return replace(self, costs={**self.costs, **costs})

    def followed(self, host: int, works: Iterable[StreamsWork]) -> Places:
        """Return the same where a host's copies of these works have about everything, and its others have not."""
        told = set(works)
        warm = {each: hosts - {host} for each, hosts in self.warm.items()}
        for each in told:
            warm[each] = warm.get(each, frozenset()) | {host}
        return replace(self, warm={each: hosts for each, hosts in warm.items() if hosts})

    def load(self, host: int) -> float:
        """Return what a host's works cost together."""
        return sum(self.cost(each) for each, owner in self.owners.items() if owner == host)

    def cost(self, work: StreamsWork) -> float:
        """Return what a work costs."""
        return self.costs.get(work, COST_DEFAULT)

    def _without(self, host: int) -> Places:
        owners = {each: owner for each, owner in self.owners.items() if owner != host}
        leaving = frozenset(each for each in self.leaving if each in owners)
        return replace(self._without_copies(host), owners=owners, leaving=leaving)

    def _without_copies(self, host: int) -> Places:
        copies = {each: hosts - {host} for each, hosts in self.copies.items()}
        return replace(self, copies={each: hosts for each, hosts in copies.items() if hosts}).followed(host, ())


def orders(places: Places) -> tuple[Places, Orders]:
    """Return what is to be said now, and the places with that said."""
    owners = dict(places.owners)
    loads = {host: places.load(host) for host in sorted(places.hosts)}
    assign: dict[int, list[StreamsWork]] = {}
    free = [each for each in places.works if each not in owners]
    for work in sorted(free, key=lambda each: (-places.cost(each), each)):
        if not loads:
            break
        held = places.copies.get(work, frozenset()) & loads.keys()  # who has a copy begins at once
        near = held & places.warm.get(work, frozenset()) or held
        host = min(near or loads, key=lambda each: (loads[each], each))
        owners[work] = host
        loads[host] += places.cost(work)
        assign.setdefault(host, []).append(work)
    copies = standbys(replace(places, owners=owners))
    owned = replace(places, owners=owners, copies=copies)
    unwanted = {each for each in owners if each not in places.works and each not in places.leaving}
    revoke = {each for each in unwanted if owners[each] in places.hosts}
    if not free and not places.leaving and not revoke and (moving := _unfair(owned, loads)) is not None:
        revoke = {moving}
    said = replace(owned, leaving=places.leaving | revoke)
    by_host: dict[int, list[StreamsWork]] = {}
    for work in sorted(revoke):
        by_host.setdefault(owners[work], []).append(work)
    return said, Orders(
        {host: tuple(found) for host, found in assign.items()},
        {host: tuple(found) for host, found in by_host.items()},
        _more(copies, places.copies),
        _more(places.copies, copies, owners),
        tuple(sorted(places.gone)),
    )


def _more(
    copies: Mapping[StreamsWork, frozenset[int]],
    than: Mapping[StreamsWork, frozenset[int]],
    owners: Mapping[StreamsWork, int] | None = None,
) -> dict[int, tuple[StreamsWork, ...]]:
    """Return by host the copies that are in one and not in the other; a host that owns a work now has taken its copy."""
    found: dict[int, list[StreamsWork]] = {}
    for work, hosts in sorted(copies.items()):
        for host in sorted(hosts - than.get(work, frozenset())):
            if owners is None or owners.get(work) != host:
                found.setdefault(host, []).append(work)
    return {host: tuple(works) for host, works in found.items()}


def _unfair(places: Places, loads: Mapping[int, float]) -> StreamsWork | None:
    """Return the work that is to move from the host with most to the one with least; None where all is fair."""
    if len(loads) < 2:
        return None
    most = max(loads, key=lambda each: (loads[each], -each))
    least = min(loads, key=lambda each: (loads[each], each))
    gap = loads[most] - loads[least]
    found: tuple[float, StreamsWork] | None = None
    for work, owner in sorted(places.owners.items()):
        cost = places.cost(work)
        is_cold = least in places.copies.get(work, ()) and least not in places.warm.get(work, ())
        if owner == most and cost > 0 and not is_cold:
            left = abs(gap - 2 * cost)
            if left < gap - MARGIN * loads[most] and (found is None or left < found[0]):
                found = left, work
    return None if found is None else found[1]


def standbys(places: Places) -> dict[StreamsWork, frozenset[int]]:
    """Return the hosts that keep a copy of each work's state: others than its own, as evenly as may be.

    Copies stay where they are as long as they may; that of a work without an owner stays until it has one again.
    """
    found: dict[StreamsWork, frozenset[int]] = {}
    numbers = dict.fromkeys(sorted(places.hosts), 0)
    wanted = sorted(work for work in places.works if places.replicas.get(work, 0) > 0)
    for work in wanted:
        others = [host for host in sorted(places.copies.get(work, ())) if host in numbers]
        kept = [host for host in others if host != places.owners.get(work)][: places.replicas[work]]
        found[work] = frozenset(kept)
        for host in kept:
            numbers[host] += 1
    for work in wanted:
        owner = places.owners.get(work)
        while owner is not None and len(found[work]) < places.replicas[work]:
            others = [host for host in numbers if host != owner and host not in found[work]]
            if not others:
                break
            host = min(others, key=lambda each: (numbers[each], each))
            found[work] |= {host}
            numbers[host] += 1
    return {work: hosts for work, hosts in found.items() if hosts}
