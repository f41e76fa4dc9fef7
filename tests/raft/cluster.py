"""A quorum in one process: a seeded network that loses, doubles and reorders, disks that forget what was not flushed,
and the promises of Raft checked after every event."""

from __future__ import annotations

import heapq
from dataclasses import dataclass, field, replace
from random import Random

from ottla.base import NodeId, Offset, Uuid
from ottla.raft import (
    NO_ELECTION,
    BeginEpoch,
    ElectionState,
    Envelope,
    FetchReply,
    Leader,
    LogRange,
    LogView,
    Raft,
    RaftConfig,
    Ready,
    ReplicaKey,
    SnapshotChunk,
    SnapshotId,
    SnapshotRange,
    Voter,
    VoterHistory,
    VoterSet,
    observed,
    read_batches,
)

CONFIG = RaftConfig(
    election_timeout_ms=200,
    election_backoff_max_ms=100,
    fetch_timeout_ms=400,
    request_timeout_ms=300,
    fetch_max_wait_ms=50,
)
SNAPSHOT_CHUNK = 3


def key(node_id: int) -> ReplicaKey:
    return ReplicaKey(NodeId(node_id), Uuid(bytes(15) + bytes([node_id])))


@dataclass
class Batch:
    base_offset: int
    count: int
    epoch: int
    data: bytes


@dataclass
class Disk:
    """What one replica keeps: `durable` is what a crash leaves of the log's end."""

    batches: list[Batch] = field(default_factory=list)
    durable: int = 0
    start: int = 0
    snapshot: SnapshotId = field(default_factory=SnapshotId)
    election: ElectionState = NO_ELECTION

    @property
    def end(self) -> int:
        return self.batches[-1].base_offset + self.batches[-1].count if self.batches else self.start

    def view(self) -> LogView:
        view = LogView.after(self.snapshot)
        for batch in self.batches:
            view = view.appended(batch.base_offset, batch.count, batch.epoch)
        return view

    def truncate(self, offset: int) -> None:
        self.batches = [each for each in self.batches if each.base_offset < offset]
        self.durable = min(self.durable, offset)

    def read(self, wanted: LogRange, batches_max: int) -> bytes:
        found = [each.data for each in self.batches if wanted.start <= each.base_offset < wanted.end]
        return b"".join(found[:batches_max])


class Cluster:
    """Voters 1..n and observers above them, driven by one heap of events."""

    def __init__(
        self, seed: int, voters: int, *, observers: int = 0, loss: float = 0.0, kraft_version: int = 1
    ) -> None:
        self.rng = Random(seed)
        self.loss = loss
        self.now = 1_000
        self.voters = VoterSet.of(Voter(key(each)) for each in range(1, voters + 1))
        self.kraft_version = kraft_version
        ids = range(1, voters + observers + 1)
        self.disks = {each: Disk() for each in ids}
        self.nodes: dict[int, Raft] = {}
        self.links_cut: set[tuple[int, int]] = set()
        self.events: list[tuple[int, int, int, object]] = []
        self.serial = 0
        self.leaders: dict[int, int] = {}
        self.committed: list[tuple[int, bytes]] = []
        self.proposed = 0
        self.full: set[int] = set()
        for each in ids:
            self.start(each)

    # events

    def at(self, delay: int, node: int, what: object) -> None:
        self.serial += 1
        heapq.heappush(self.events, (self.now + delay, self.serial, node, what))

    def start(self, node: int) -> None:
        disk = self.disks[node]
        history = VoterHistory.starting(self.voters, kraft_version=self.kraft_version)
        for batch in disk.batches:
            for each in read_batches(batch.data):
                history = observed(history, each)
        self.nodes[node] = Raft(
            key(node),
            voters=history,
            log=disk.view(),
            election=disk.election,
            rng=Random(self.rng.randrange(1 << 30)),
            now=self.now,
            config=CONFIG,
        )
        self.at(0, node, "tick")

    def crash(self, node: int) -> None:
        disk = self.disks[node]
        disk.batches = [each for each in disk.batches if each.base_offset + each.count <= disk.durable]
        del self.nodes[node]
        for other in self.nodes:
            self.break_connection(other, node)

    def break_connection(self, node: int, peer: int) -> None:
        """Let a node hear that its connection to a peer has closed, dead or not."""
        self.at(1 + self.rng.randrange(20), node, ("disconnected", peer))

    def run(self, duration: int) -> None:
        end = self.now + duration
        while self.events and self.events[0][0] <= end:
            self.now, _, node, what = heapq.heappop(self.events)
            if node in self.nodes:
                self.handle(node, what)
        self.now = end

    def handle(self, node: int, what: object) -> None:
        raft = self.nodes[node]
        match what:
            case "tick":
                raft.tick(self.now)
                self.at(max(1, min(raft.next_deadline - self.now, 40)), node, "tick")
            case ("flushed", life, int(end)) if life is raft:
                disk = self.disks[node]
                disk.durable = max(disk.durable, min(end, disk.end))
                raft.flushed(end, self.now)
            case ("disconnected", int(peer)):
                raft.disconnected(NodeId(peer), self.now)
            case Envelope():
                raft.step(what, self.now)
        self.perform(node)

    # effects, in the order that Ready states

    def perform(self, node: int) -> None:
        raft, disk = self.nodes[node], self.disks[node]
        while ready := raft.ready():
            if ready.election is not None:
                disk.election = ready.election
            if ready.truncate_to is not None:
                disk.truncate(ready.truncate_to)
            for at, each in enumerate(ready.appends):
                assert each.base_offset == disk.end
                if node in self.full and self.rng.random() < 0.8:
                    if raft.is_leader and at:
                        disk.truncate(ready.appends[0].base_offset)
                    raft.refused(Offset(disk.end), self.now)
                    break
                disk.batches.append(Batch(each.base_offset, each.count, each.epoch, each.batches))
            if ready.appends:
                self.at(self.rng.randrange(1, 10), node, ("flushed", raft, disk.end))
            self.load_snapshot(node, ready)
            for envelope in ready.messages:
                if raft.is_leader or not isinstance(envelope.message, BeginEpoch):
                    self.send(envelope)
            self.check(node)

    def load_snapshot(self, node: int, ready: Ready) -> None:
        for write in ready.snapshot_writes:
            if write.last:
                raft, disk = self.nodes[node], self.disks[node]
                disk.batches, disk.start, disk.snapshot = [], write.snapshot.end_offset, write.snapshot
                disk.durable = disk.start
                raft.installed(
                    write.snapshot,
                    VoterHistory.starting(self.voters, kraft_version=self.kraft_version, offset=0),
                    self.now,
                )

    def send(self, envelope: Envelope) -> None:
        source, to = envelope.source, envelope.to
        message = envelope.message
        if isinstance(message, FetchReply) and isinstance(message.records, LogRange):
            data = self.disks[source].read(message.records, 1 + self.rng.randrange(4))
            envelope = replace(envelope, message=replace(message, records=data))
        elif isinstance(message, SnapshotChunk) and isinstance(message.data, SnapshotRange):
            size = SNAPSHOT_CHUNK * 2 + 1
            data = bytes(min(SNAPSHOT_CHUNK, size - message.position))
            envelope = replace(envelope, message=replace(message, data=data, size=size))
        if (source, to) in self.links_cut:
            return
        while self.rng.random() >= self.loss:
            self.at(1 + self.rng.randrange(20), to, envelope)
            if self.rng.random() >= self.loss / 2:  # else once more
                return

    # what the world asks

    @property
    def leader(self) -> Raft | None:
        leading = [each for each in self.nodes.values() if each.is_leader]
        return max(leading, key=lambda each: each.epoch, default=None)

    def propose(self) -> bool:
        leader = self.leader
        if leader is None:
            return False
        self.proposed += 1
        leader.propose([b"%d" % self.proposed], self.now)
        self.perform(leader.key.id)
        return True

    def snapshot(self, node: int) -> None:
        """Drop what is committed and older than the newest three batches, behind a snapshot."""
        raft, disk = self.nodes[node], self.disks[node]
        older = [
            each for each in disk.batches if each.base_offset + each.count <= min(raft.high_watermark, disk.durable)
        ]
        if len(older) > 3:
            last = older[-3]
            snapshot = SnapshotId(last.base_offset + last.count, last.epoch)  # type: ignore[arg-type]
            disk.snapshot, disk.start = snapshot, snapshot.end_offset
            disk.batches = [each for each in disk.batches if each.base_offset >= disk.start]
            raft.snapshotted(snapshot, disk.start)

    # promises

    def check(self, node: int) -> None:
        raft, disk = self.nodes[node], self.disks[node]
        if isinstance(raft.role, Leader):
            assert self.leaders.setdefault(raft.epoch, node) == node, f"two leaders in epoch {raft.epoch}"
        assert disk.end == raft.log.end_offset
        if disk.start > len(self.committed):
            return
        for batch in disk.batches:
            if batch.base_offset + batch.count > raft.high_watermark:
                break
            for index in range(batch.count):
                offset = batch.base_offset + index
                entry = (batch.epoch, batch.data)
                if offset == len(self.committed):
                    self.committed.append(entry)
                else:
                    assert self.committed[offset] == entry, f"committed record at {offset} differs on node {node}"

    def check_end(self) -> None:
        """Nothing that was committed is missing where the newest leader looks."""
        leader = self.leader
        assert leader is not None, "no leader although the network is whole"
        disk = self.disks[leader.key.id]
        assert leader.high_watermark >= len(self.committed)
        held = {batch.base_offset + index for batch in disk.batches for index in range(batch.count)}
        assert held >= set(range(disk.start, len(self.committed)))
