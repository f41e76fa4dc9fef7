"""Worlds of controllers alone: they elect, decide, crash, forget what was not fsynced, and never give a ticket twice.

A ticket is a decision of the quorum's (the next producer id, taken one by one). Whoever asks after another was answered
gets a higher one; so a commit that is lost, a second leader or an image that was shown too early is found out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

from ottla.base import ErrorCode, KafkaError, NodeId, Uuid
from ottla.metadata import Image, decide
from ottla.raft import ReplicaKey, Voter, VoterEndpoint, VoterSet
from ottla.wire.messages.producer_ids_record import ProducerIdsRecord
from tests.sim.cluster.busy_faults import BusyFaults
from tests.sim.cluster.faults import Faults
from tests.sim.cluster.host import Host
from tests.sim.cluster.world import ClusterWorld, Shape
from tests.sim.ledger import Violation
from tests.sim.process import Crash

__all__ = ["SHAPES", "BusyQuorumWorld", "BusyVotersWorld", "QuorumWorld", "VotersWorld"]

SHAPES = (*(Shape((1, 2, 3), ()),) * 3, Shape((1, 2, 3, 4, 5), ()))
ASKERS = 3
PASSING = {ErrorCode.NOT_CONTROLLER, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.KAFKA_STORAGE_ERROR}


class QuorumWorld(ClusterWorld):
    """Three or five controllers and those who ask them."""

    def __init__(self, seed: int, **options: Any) -> None:
        options.setdefault("shape", None)
        super().__init__(seed, **options)
        self.faults.count += 3
        self.faults.kinds += (self.faults.all_metadata_lost,) * 5
        self.answered = -1
        """The highest ticket that anyone was given."""

    def _draw_offload_s(self) -> float:
        return self.rng.choice((0.004, 0.03, 0.08))

    def _draw_shape(self) -> Shape:
        return self.rng.choice(SHAPES)

    async def begin(self) -> None:
        """Format and start every controller."""
        self.format_and_start()
        await self.until(self.is_up, 60.0, "the quorum does not come up")

    def work(self, stop: asyncio.Event) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield those who ask for tickets."""
        for number in range(ASKERS):
            yield self._ask(f"asker-{number}", stop)

    async def _ask(self, name: str, stop: asyncio.Event) -> None:
        rng = self.clients.rng
        while not stop.is_set():
            await asyncio.sleep(0.06 * rng.random())
            leading = [host for host in self.hosts.values() if _may_lead(host)]
            if not leading:
                continue
            host = rng.choice(leading)  # two may think that they lead
            before = self.answered
            assert host.process is not None and host.node is not None
            try:
                ticket = await asyncio.wait_for(host.process.run(host.node.quorum.submit(_take, timeout_ms=2000)), 5.0)
            except (Crash, TimeoutError):
                continue
            except KafkaError as error:
                if error.code not in PASSING:
                    raise
                continue
            self.trace.note(f"ticket {ticket} from {host.name} for {name}")
            if ticket <= before:
                raise Violation(f"{host.name} gave ticket {ticket} to {name}; {before} had been given")
            self.answered = max(self.answered, ticket)
            self.ledger.tally.records += 1

    def is_whole(self) -> bool:
        """True where the leader knows of every ticket, and every controller has the leader's image.

        A new leader knows what it has, and only when a record of its own epoch is committed how far that is committed
        (Raft, 5.4.2): until then its image may end before a ticket that was given.
        """
        leader = self.active_controller()
        if not self.is_up() or leader is None or leader.node is None:
            return False
        if leader.node.quorum.image.next_producer_id <= self.answered:
            return False
        offset = leader.node.quorum.image.offset
        return all(host.node is not None and host.node.quorum.image.offset >= offset for host in self.hosts.values())

    async def last_look(self) -> None:
        """Every controller knows of every ticket."""
        for host in self.hosts.values():
            assert host.node is not None
            known = host.node.quorum.image.next_producer_id
            if known <= self.answered:
                raise Violation(f"{host.name} knows tickets to {known}; {self.answered} was given")
        self.check()


def _may_lead(host: Host) -> bool:
    process = host.process
    if process is None or not process.alive or process.is_paused or not host.is_running or host.node is None:
        return False
    return host.node.quorum.is_leader


def _take(image: Image) -> decide.Decision[int]:
    ticket = image.next_producer_id
    record = ProducerIdsRecord(broker_id=0, broker_epoch=0, next_producer_id=ticket + 1)
    return decide.Decision((record,), ticket)


class VotersWorld(QuorumWorld):
    """Five controllers, three of which vote at first; voters come and go by records (KIP-853)."""

    def _draw_shape(self) -> Shape:
        return Shape((1, 2, 3, 4, 5), ())

    def _quorum_settings(self) -> dict[str, str]:
        return {"controller.quorum.bootstrap.servers": ",".join(f"n{each}:9093" for each in self.shape.controllers)}

    def _voters(self) -> VoterSet:
        ids = [each.to_bytes(16, "big") for each in range(1000, 1003)]
        return VoterSet.of(
            Voter(ReplicaKey(NodeId(node), Uuid(directory)), (VoterEndpoint("CONTROLLER", f"n{node}", 9093),))
            for node, directory in zip((1, 2, 3), ids, strict=True)
        )

    def work(self, stop: asyncio.Event) -> Iterator[Coroutine[Any, Any, None]]:
        """Yield those who ask for tickets, and who changes the voters."""
        yield from super().work(stop)
        yield self._change_voters(stop)

    async def _change_voters(self, stop: asyncio.Event) -> None:
        rng = self.clients.rng
        while not stop.is_set():
            await asyncio.sleep(0.2 + 1.0 * rng.random())
            leader = self.active_controller()
            if leader is None or not _may_lead(leader) or leader.process is None or leader.node is None:
                continue
            quorum = leader.node.quorum
            chosen = rng.choice(list(self.hosts.values()))
            if chosen.node is None or not chosen.is_running:
                continue
            key = chosen.node.quorum.key
            voter = Voter(key, (VoterEndpoint("CONTROLLER", chosen.name, 9093),))

            def change(now: VoterSet, voter: Voter = voter) -> VoterSet:
                if not now.has(voter.key):
                    return VoterSet.of([*now, voter])
                return VoterSet.of(each for each in now if each.key != voter.key or len(now) <= 2)

            try:
                await asyncio.wait_for(leader.process.run(quorum.change_voters(change, timeout_ms=2000)), 5.0)
                self.trace.note(f"voters changed by {chosen.name}: {quorum.status.voters.ids}")
            except (Crash, TimeoutError, KafkaError):
                continue


class BusyQuorumWorld(QuorumWorld):
    """Controllers of the second generation: storms of faults, and single calls of their disks that fail."""

    def _faults(self) -> Faults:
        return BusyFaults(self)


class BusyVotersWorld(VotersWorld):
    """The same while voters come and go."""

    def _faults(self) -> Faults:
        return BusyFaults(self)
