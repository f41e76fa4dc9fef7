"""Looking into the nodes of a simulated cluster while they run: what must hold at every moment, whoever is asked.

`step` runs between two callbacks of the loop, whenever time has moved; it reads values that the nodes keep in memory.
`compare_logs` reads the files behind the nodes' backs.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ottla.broker import Node
from ottla.metadata import EMPTY_IMAGE, Delta, Image
from ottla.replica import Role
from ottla.wire import iter_batches, read_batch_header
from tests.sim.cluster.host import Host
from tests.sim.ledger import Violation
from tests.sim.storage import Directory

__all__ = ["Inspection"]

STEP_S = 0.004
"""Virtual time between two looks."""
AHEAD_S = 0.02
"""For so long a follower may seem to be ahead of its leader, between two looks."""
IMAGES_KEPT = 400
HEADER = struct.Struct(">qiibI")
"""Base offset, length, leader epoch, magic and CRC of a batch."""
LAST_OFFSET_DELTA = struct.Struct(">i")
LAST_OFFSET_DELTA_AT, BATCH_OVERHEAD, BATCH_BYTES_MIN = 23, 12, 61
Key = tuple[str, int]
Span = tuple[int, int, int, int]
"""A batch in a log: first and last offset, leader epoch, CRC of everything that does not change."""


@dataclass
class _Partition:
    """What all nodes together have shown of one partition (of one topic id)."""

    leaders: dict[int, int] = field(default_factory=dict)
    """By leader epoch, who led."""
    starts: dict[int, int] = field(default_factory=dict)
    """By leader epoch, where the leader's log ended when it began, or a moment later."""
    newest: tuple[int, int, int] = (-1, -1, 0)
    """(epoch, node, high watermark) of the newest leader."""
    committed: int = 0
    """The highest high watermark that a leader ever had."""
    batches: dict[int, Span] = field(default_factory=dict)
    """By base offset, what was found below a watermark."""


@dataclass
class _Seen:
    shown: tuple[int, int, bool]
    """Watermark, leader epoch, and whether it led."""
    ahead_since_s: float | None = None

    @property
    def is_settled(self) -> bool:
        """True where the same again needs no look."""
        return self.ahead_since_s is None


class Inspection:
    """One cluster's; it raises Violation, through `failed` where nobody could catch it."""

    def __init__(self, hosts: Sequence[Host], now_s: Callable[[], float], note: Callable[[str], None]) -> None:
        self.hosts = hosts
        self.failed: Violation | None = None
        self.quorum_leaders: dict[int, int] = {}
        self.images: dict[int, Image] = {}
        self._partitions: dict[tuple[bytes, int], _Partition] = {}
        self._ids: dict[Key, tuple[bytes, int]] = {}
        self._seen: dict[tuple[int, int, bytes, int], _Seen] = {}
        self._shown: dict[object, tuple[int, int, bool]] = {}
        """By a node's partition, what needs no second look: its watermark and leader epoch, and whether it leads."""
        self._ahead: set[int] = set()
        """Nodes with a partition that seemed to be ahead of its leaders."""
        self._leading: dict[int, dict[Any, None]] = {}
        """By node, the partitions that it was seen to lead: what they committed counts when it holds them no more."""
        self._watched: dict[int, int] = {}
        self._now_s = now_s
        self._note = note
        self._next_s = 0.0
        self.looks = 0

    # ---------------------------------------------------------------- hooks

    def watch(self, host: Host, node: Node) -> None:
        """Follow a node's images from its first one on."""
        if self._watched.get(host.node_id) == host.incarnation:
            return
        self._watched[host.node_id] = host.incarnation
        self._leading[host.node_id] = {}

        def changed(old: Image, image: Image, delta: Delta) -> None:
            try:
                self._image(host, old, image)
                self._look_back(host)
            except Violation as violation:
                self._fail(violation)

        node.quorum.subscribe(changed)

    def step(self) -> None:
        """Look at everything, unless that was just done."""
        now_s = self._now_s()
        if now_s < self._next_s or self.failed is not None:
            return
        self.look()

    def look(self) -> None:
        """Look at all nodes of which something has run since the last look, at leaders first."""
        self._next_s = self._now_s() + STEP_S
        self.looks += 1
        followers = []
        try:
            for host in self.hosts:
                if not host.is_alive or host.node is None:
                    continue
                if not host.take_ran() and host.node_id not in self._ahead:
                    continue
                self._look(host, host.node)
                self._ahead.discard(host.node_id)
                for held in getattr(host.node, "_partitions", ()):
                    replica = held.replica
                    leads = replica.role is Role.LEADER
                    if self._shown.get(held) == (replica.high_watermark, replica.leader_epoch, leads):
                        continue
                    if leads:  # also one whose directory has failed: what it committed before, it did
                        self._look_at(host, held)
                    elif not held.is_offline:
                        followers.append((host, held))
            for follower in followers:
                self._look_at(*follower)
        except Violation as violation:
            self._fail(violation)

    def died(self, host: Host) -> None:
        """Look at what a process led when it ended, which may be in the middle of anything."""
        try:
            self._look_back(host)
        except Violation as violation:
            self._fail(violation)

    def _look_back(self, host: Host) -> None:
        """Look at what a node has led: since the last look it may have committed more, and told it to followers.

        Its process ends now, or its image changes, by which it may come to lead no more, or not to hold the partition.
        """
        leading = {held: None for held in getattr(host.node, "_partitions", ()) if held.replica.is_leader}
        for held in self._leading.get(host.node_id, {}) | leading:
            self._look_at(host, held)
        self._leading[host.node_id] = leading

    def check(self) -> None:
        """Raise what was found."""
        if self.failed is not None:
            raise self.failed

    def newest(self, topic: str, index: int) -> tuple[int, int, int] | None:
        """Return (epoch, node, high watermark) of a partition's newest leader."""
        self.look()
        ids = self._ids.get((topic, index))
        return None if ids is None else self._partitions[ids].newest

    def leads(self, node: int, topic: str, index: int) -> int:
        """Return the epoch in which a node takes itself for a partition's leader, or -1."""
        host = next(each for each in self.hosts if each.node_id == node)
        if not host.is_alive or host.node is None:
            return -1
        partitions = getattr(host.node, "_partitions", None)
        held = None if partitions is None else partitions.get(topic, index)
        return held.replica.leader_epoch if held is not None and held.replica.is_leader else -1

    def cannot_place(self, node: int, topic: str, index: int, batch: bytes) -> bool:
        """Return whether a leader that does as Kafka's does refuses a batch, as one out of order, by what its log has.

        It has the batch and a later one of its producer. Or it knew nothing of that one, could not take the batch (it led
        not yet, or had no room), and took a later one: an unknown producer may begin at any sequence (KIP-360).
        """
        sent = read_batch_header(batch)
        host = next(each for each in self.hosts if each.node_id == node)
        sequences = [
            header.base_sequence
            for data in _logs_of(host, f"{topic}-{index}")
            for header, _ in iter_batches(bytes(data))
            if header.producer_id == sent.producer_id and header.producer_epoch == sent.producer_epoch
        ]
        return sent.base_sequence in sequences[:-1] or (bool(sequences) and sent.base_sequence < sequences[0])

    def _fail(self, violation: Violation) -> None:
        if self.failed is None:
            self.failed = violation

    # ---------------------------------------------------------------- metadata

    def _image(self, host: Host, old: Image, image: Image) -> None:
        """Images agree at the same offset, and a node's never go back."""
        if old is not EMPTY_IMAGE and image.offset < old.offset:
            raise Violation(f"{host.name}: the image went from offset {old.offset} back to {image.offset}")
        known = self.images.setdefault(image.offset, image)
        if known is not image and known != image:
            raise Violation(f"{host.name}: the image at offset {image.offset} differs: {_difference(known, image)}")
        if len(self.images) > IMAGES_KEPT:
            del self.images[min(self.images)]

    def _look(self, host: Host, node: Node) -> None:
        quorum = getattr(node, "_quorum", None)
        if quorum is None or not hasattr(quorum, "_raft"):
            return
        if quorum.is_leader:
            epoch = quorum._raft.epoch
            if epoch not in self.quorum_leaders:
                self._note(f"{self._now_s():.6f} {host.name} leads the quorum in epoch {epoch}")
            leader = self.quorum_leaders.setdefault(epoch, host.node_id)
            if leader != host.node_id:
                raise Violation(f"{leader} and {host.node_id} both led the metadata quorum in epoch {epoch}")

    # ---------------------------------------------------------------- partitions

    def _look_at(self, host: Host, held) -> None:  # type: ignore[no-untyped-def]
        replica = held.replica
        high_watermark, epoch, leads = replica.high_watermark, replica.leader_epoch, replica.is_leader
        place = (host.node_id, host.incarnation, held.topic_id, held.key.partition)
        before = self._seen.get(place)
        shown = self._shown[held] = (high_watermark, epoch, leads)
        if leads:
            self._leading.setdefault(host.node_id, {})[held] = None
        if before is not None and before.is_settled and before.shown == shown:
            return
        ids = place[2:]
        known = self._partitions.get(ids)
        if known is None:
            known = self._partitions[ids] = _Partition()
            self._ids[held.key.topic, held.key.partition] = ids
        name = f"{held.key.topic}-{held.key.partition}"
        seen = self._seen[place] = _Seen(shown)
        end = held.log.log_end_offset
        if high_watermark > end:
            raise Violation(f"{host.name}: {name} has watermark {high_watermark} beyond its end {end}")
        if leads:
            self._led(host, name, known, epoch, high_watermark, end)
            if before is not None and before.shown[1:] == (epoch, True) and high_watermark < before.shown[0]:
                raise Violation(f"{host.name}: {name} went from {before.shown[0]} back to {high_watermark}")
        elif high_watermark > known.committed:
            if before is not None and before.shown[2]:  # it led until a moment ago
                known.committed = high_watermark
                return
            self._ahead.add(host.node_id)
            del self._shown[held]
            self._seems_ahead(host, name, known, before, seen)

    def _seems_ahead(self, host: Host, name: str, known: _Partition, before: _Seen | None, seen: _Seen) -> None:
        """A follower is ahead of every leader that was looked at: the leader may be looked at a moment later."""
        seen.ahead_since_s = self._now_s()
        if before is not None and before.ahead_since_s is not None:
            seen.ahead_since_s = before.ahead_since_s
        if self._now_s() - seen.ahead_since_s > AHEAD_S:
            raise Violation(f"{host.name} follows {name} to {seen.shown[0]}; leaders had committed {known.committed}")

    def _led(self, host: Host, name: str, known: _Partition, epoch: int, high_watermark: int, end: int) -> None:
        """One leader per epoch, and it has everything that any leader before it had committed."""
        leader = known.leaders.get(epoch)
        if leader is None:
            known.leaders[epoch] = host.node_id
            known.starts[epoch] = end
            self._note(f"{self._now_s():.6f} {host.name} leads {name} in epoch {epoch}, to {high_watermark} of {end}")
            newest = max(known.leaders) == epoch
            if newest and end < known.committed:
                raise Violation(
                    f"{host.name} leads {name} in epoch {epoch} and ends at {end}; {known.committed} was committed"
                )
        elif leader != host.node_id:
            raise Violation(f"{leader} and {host.node_id} both led {name} in epoch {epoch}")
        if epoch >= known.newest[0]:
            known.newest = (epoch, host.node_id, high_watermark)
        elif high_watermark > (limit := min(known.starts[each] for each in known.starts if each > epoch)):
            raise Violation(
                f"{host.name}, deposed, commits {name} to {high_watermark} in epoch {epoch}; "
                f"node {known.newest[1]} leads in {known.newest[0]}, and later epochs begin at {limit}"
            )
        known.committed = max(known.committed, high_watermark)

    # ---------------------------------------------------------------- files

    def compare_logs(self, topics: Sequence[str] | None = None, *, but: Sequence[str] = ()) -> int:
        """Logs agree below the watermark, batch by batch; return how many batches were compared.

        Logs of the topics in `but` are left out: where they are compacted, copies differ.
        """
        compared = 0
        for host in self.hosts:
            if not host.is_running or host.node is None:
                continue
            for held in host.node._partitions:
                name = held.key.topic
                if held.is_offline or name in but or (topics is not None and name not in topics):
                    continue
                known = self._partitions.get((held.topic_id, held.key.partition))
                if known is not None:
                    compared += self._compare(host, held, known)
        return compared

    def _compare(self, host: Host, held, known: _Partition) -> int:  # type: ignore[no-untyped-def]
        name = f"{held.key.topic}-{held.key.partition}"
        below = min(held.replica.high_watermark, known.committed)
        start, expected = held.log.log_start_offset, None
        count = 0
        for span in spans_of(host, held.log.folder):
            if span[1] >= below:
                break
            count += 1
            if expected is not None and span[0] != expected:
                raise Violation(f"{host.name}: {name} jumps from {expected} to {span[0]}")
            expected = span[1] + 1
            other = known.batches.setdefault(span[0], span)
            if other != span and span[1] >= start:
                raise Violation(
                    f"{host.name}: {name} holds (first, last, epoch, crc) {span} below its watermark {below}; "
                    f"elsewhere there was {other}"
                )
        return count


def spans_of(host: Host, folder: str) -> Iterator[Span]:
    """Yield the batches of a log as the files in its folder have them."""
    for data in _logs_in(host, folder):
        at = 0
        while at + BATCH_BYTES_MIN <= len(data):
            base, length, epoch, _, crc = HEADER.unpack_from(data, at)
            if length <= 0 or at + BATCH_OVERHEAD + length > len(data):
                break
            delta = LAST_OFFSET_DELTA.unpack_from(data, at + LAST_OFFSET_DELTA_AT)[0]
            yield base, base + delta, epoch, crc
            at += BATCH_OVERHEAD + length


def _logs_of(host: Host, name: str) -> Iterator[bytearray]:
    """Yield the content of a partition's segments, in order: where its node has it, or else where there is one.

    A move whose old folder could not be removed leaves two.
    """
    topic, _, index = name.rpartition("-")
    served = host.node._partitions.get(topic, int(index)) if host.node is not None else None
    dirs = host.data_dirs if served is None else (served.log_dir.path, *host.data_dirs)
    path = next((f"{each}/{name}" for each in dirs if host.storage.exists(f"{each}/{name}")), None)
    return iter(()) if path is None else _logs_in(host, path)


def _logs_in(host: Host, path: str) -> Iterator[bytearray]:
    """Yield the content of the segments in a folder, in order."""
    folder = host.storage.directory(path)
    for file in sorted(each for each in folder.entries if each.endswith(".log")):
        inode = folder.entries[file]
        assert not isinstance(inode, Directory)
        yield inode.data


def _difference(one: Image, other: Image) -> str:
    names = [name for name in Image.__dataclass_fields__ if getattr(one, name) != getattr(other, name)]
    return "; ".join(f"{name}: {getattr(one, name)!r:.300} and {getattr(other, name)!r:.300}" for name in names)
