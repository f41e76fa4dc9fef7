"""Replicas and the controller's decisions together: what was committed stays, whatever is late, lost or restarted.

One partition on three brokers; each knows an image of its own age, asks and answers in any order, and may be fenced, come
back, and lose what it had not yet written, while others have it (seeded histories).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from ottla.base import ErrorCode, LeaderEpoch, NodeId, Offset
from ottla.metadata import Image, decide
from ottla.replica import IsrProposal, Replica
from ottla.wire.messages.alter_partition import (
    AlterPartitionRequest,
    BrokerState,
    RequestPartitionData,
    RequestTopicData,
)
from tests.metadata.clusters import after, cluster, registration, topic, with_topics
from tests.metadata.moves import elect, part

BROKERS = (1, 2, 3)
STEPS = 400
LAG_S = 10.0


@dataclass
class Node:
    """A broker's copy: its log of (epoch, value), and the image that it knows."""

    id: NodeId
    image: Image
    replica: Replica
    log: list[tuple[int, int]] = field(default_factory=list)
    epoch_starts: dict[int, int] = field(default_factory=dict)

    def end_of(self, epoch: int) -> tuple[int, int]:
        """Where the newest epoch that is not newer than this one ends here."""
        starts = sorted(self.epoch_starts.items())
        known = [each for each, _ in starts if each <= epoch]
        if not known:
            return epoch, starts[0][1] if starts else len(self.log)
        later = [start for each, start in starts if each > epoch]
        return known[-1], later[0] if later else len(self.log)

    def cut(self, end: int) -> None:
        del self.log[end:]
        self.epoch_starts = {epoch: start for epoch, start in self.epoch_starts.items() if start < end}
        self.replica.truncated(Offset(len(self.log)))

    def put(self, epoch: int, value: int) -> None:
        if epoch not in self.epoch_starts:
            self.epoch_starts[epoch] = len(self.log)
        self.log.append((epoch, value))


class World:
    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        self.now_s = 0.0
        min_isr = str(self.rng.choice((1, 2, 2, 2)))
        image = with_topics(
            cluster(*BROKERS), topic("a", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": min_isr})
        )
        self.images = [image]
        self.nodes = {each: self.fresh(each, image) for each in BROKERS}
        for node in self.nodes.values():
            node.replica.min_insync_replicas = int(min_isr)
        self.min_isr = int(min_isr)
        self.requests: list[tuple[Node, IsrProposal, AlterPartitionRequest]] = []
        self.answers: list[tuple[Node, IsrProposal, Any]] = []
        self.committed: list[tuple[int, int]] = []
        self.values = 0
        self.incarnations = 0
        self.told: list[str] = []

    @staticmethod
    def fresh(broker: int, image: Image) -> Node:
        node = Node(NodeId(broker), image, Replica(NodeId(broker), high_watermark=Offset(0), log_end_offset=Offset(0)))
        node.replica.lag_max_s = LAG_S
        World.take(node, image, 0.0)
        return node

    @staticmethod
    def take(node: Node, image: Image, now_s: float) -> None:
        node.image = image
        state = part(image)
        began = node.replica.become(
            leader=state.leader,
            leader_epoch=state.leader_epoch,
            partition_epoch=state.partition_epoch,
            replicas=state.replicas,
            isr=state.isr,
            now_s=now_s,
        )
        if began:
            node.replica.epoch_start = Offset(len(node.log))

    @property
    def image(self) -> Image:
        return self.images[-1]

    def decide(self, decision: Any) -> Any:
        self.images.append(after(self.image, decision))
        return decision.response

    def step(self) -> None:
        self.now_s += self.rng.choice((0.0, 0.1, 0.1, 1.0))
        names = [each for each in dir(self) if each.startswith("do_")]
        weights = [{"do_fetch": 12, "do_hear": 8, "do_produce": 5, "do_propose": 3}.get(each, 1) for each in names]
        (name,) = self.rng.choices(names, weights)
        self.told.append(f"{name[3:]} {getattr(self, name)() or ''} {part(self.image)}")
        self.check()

    def any(self) -> Node:
        return self.nodes[self.rng.choice(BROKERS)]

    # -- what happens

    def do_produce(self) -> str | None:
        node = self.any()
        if not node.replica.is_leader:
            return None
        self.values += 1
        node.put(node.replica.leader_epoch, self.values)
        node.replica.appended(Offset(len(node.log)))
        return f"{self.values} to {node.id}"

    def do_hear(self) -> None:
        """A broker learns of the next change, or of several at once."""
        node = self.any()
        at = self.images.index(node.image)
        if at + 1 < len(self.images):
            self.take(node, self.images[self.rng.randint(at + 1, len(self.images) - 1)], self.now_s)

    def do_fetch(self) -> str | None:
        follower = self.any()
        copy = follower.replica
        if copy.is_leader or copy.leader < 0:
            return None
        leader = self.nodes[copy.leader]
        theirs = leader.replica
        if theirs.check_leader(copy.leader_epoch) is not ErrorCode.NONE or not theirs.follows(follower.id):
            return "refused"
        if follower.log:
            epoch, end = leader.end_of(follower.log[-1][0])
            if epoch < follower.log[-1][0] or end < len(follower.log):
                follower.cut(min(end, follower.end_of(epoch)[1]))
                return f"{follower.id} cut to {len(follower.log)}"
        if len(follower.log) > len(leader.log):
            return "out of range"
        taken = leader.log[len(follower.log) :][: self.rng.randint(0, 3)]
        known, registered = follower.image.brokers[follower.id], leader.image.brokers[follower.id]
        theirs.fetched_by(
            follower.id,
            fetch_offset=Offset(len(follower.log)),
            log_start_offset=Offset(0),
            now_s=self.now_s,
            broker_epoch=known.epoch,
            is_eligible=registered.active and registered.epoch == known.epoch,
        )
        if registered.active and registered.epoch == known.epoch and theirs.may_join(follower.id):
            self.propose(leader, tuple(each for each in theirs.replicas if each in (*theirs.isr, follower.id)))
        for epoch, value in taken:
            follower.put(epoch, value)
        copy.followed(Offset(len(follower.log)), theirs.high_watermark)
        return f"{follower.id} from {leader.id}"

    def do_propose(self) -> None:
        """A leader looks for followers that lag."""
        node = self.any()
        node.replica.forget_joining(self.now_s)
        lagging = node.replica.lagging(self.now_s)
        if lagging:
            self.propose(node, tuple(each for each in node.replica.isr if each not in lagging))

    def propose(self, node: Node, isr: tuple[NodeId, ...]) -> None:
        made = node.replica.propose_isr(isr)
        members = [
            BrokerState(broker_id=each, broker_epoch=epoch)
            for each, epoch in zip(made.isr, made.broker_epochs, strict=True)
        ]
        data = RequestPartitionData(
            partition_index=0,
            leader_epoch=made.leader_epoch,
            new_isr_with_epochs=members,
            partition_epoch=made.partition_epoch,
        )
        request = AlterPartitionRequest(
            broker_id=node.id,
            broker_epoch=node.image.brokers[node.id].epoch,
            topics=[RequestTopicData(topic_id=self.image.topics["a"].id, partitions=[data])],
        )
        self.requests.append((node, made, request))

    def do_controller(self) -> None:
        """The controller decides about a request; its answer may get lost, and then it is asked again."""
        if not self.requests:
            return
        at = self.rng.randrange(len(self.requests))
        node, made, request = self.requests[at]
        if self.image.brokers[node.id].epoch != request.broker_epoch:
            del self.requests[at]
            return
        answer = self.decide(decide.alter_partition(self.image, request, version=3)).topics[0].partitions[0]
        if self.rng.random() < 0.8:
            del self.requests[at]
            self.answers.append((node, made, answer))

    def do_answer(self) -> None:
        if not self.answers:
            return
        node, made, answer = self.answers.pop(self.rng.randrange(len(self.answers)))
        if answer.error_code == ErrorCode.NONE:
            isr = tuple(map(NodeId, answer.isr))
            node.replica.isr_decided(leader_epoch=answer.leader_epoch, partition_epoch=answer.partition_epoch, isr=isr)
        elif answer.error_code == ErrorCode.INELIGIBLE_REPLICA:
            node.replica.withdraw(made)

    def do_fence(self) -> str:
        broker = self.any().id
        self.decide(decide.fence_broker(self.image, broker))
        return str(broker)

    def do_unfence(self) -> None:
        for broker in BROKERS:
            epoch = self.image.brokers[broker].epoch
            self.decide(
                decide.heartbeat(
                    self.image, NodeId(broker), epoch, caught_up=True, want_fence=False, want_shut_down=False
                )
            )

    def do_restart(self) -> str | None:
        """A broker comes back; after a crash without what it had not written, if others have all that was committed."""
        node = self.any()
        state = part(self.image)
        crashed = self.rng.random() < 0.5
        others = {*state.isr, *state.eligible_leader_replicas} - {node.id}
        if crashed and (not others or (self.min_isr < 2 and node.id in state.isr)):
            return None
        self.incarnations += 1
        made = registration(
            node.id,
            incarnation=self.incarnations,
            epoch=-1 if crashed else self.image.brokers[node.id].epoch,
        )
        self.decide(decide.register_broker(self.image, made, supersede=True))
        self.requests = [each for each in self.requests if each[0] is not node]
        self.answers = [each for each in self.answers if each[0] is not node]
        kept = self.rng.randint(0, len(node.log)) if crashed else len(node.log)
        mark = min(kept, node.replica.high_watermark)
        node.replica = Replica(node.id, high_watermark=Offset(mark), log_end_offset=Offset(len(node.log)))
        node.replica.lag_max_s, node.replica.min_insync_replicas = LAG_S, self.min_isr
        node.cut(kept)
        # It takes part again once it knows of its own registration.
        self.take(node, self.image, self.now_s)
        return f"{node.id} with {kept}"

    def do_elect(self) -> None:
        self.decide(elect(self.image))

    # -- what always holds

    def check(self) -> None:
        for node in self.nodes.values():
            replica = node.replica
            assert replica.high_watermark <= len(node.log)
            seen = node.log[: replica.high_watermark]
            shared = min(len(seen), len(self.committed))
            assert seen[:shared] == self.committed[:shared], f"{node.id} has committed something else"
            self.committed += seen[shared:]
        state = part(self.image)
        for broker in state.isr:
            log = self.nodes[broker].log
            assert log[: len(self.committed)] == self.committed, f"{broker} is in sync and lacks what was committed"


@pytest.mark.parametrize("seed", range(80))
def test_what_was_committed_stays_in_every_copy_in_sync(seed: int) -> None:
    world = World(seed)
    try:
        for _ in range(STEPS):
            world.step()
    except AssertionError as error:
        story = "\n".join(world.told[-25:])
        raise AssertionError(f"seed {seed}, step {len(world.told)}: {error}\n{story}") from error


def test_histories_commit_and_change_leaders() -> None:
    """The stories are worth telling: things are committed in them, by many leaders."""
    world = World(3)
    for _ in range(4 * STEPS):
        world.step()
    assert len(world.committed) > 20 and part(world.image).leader_epoch > LeaderEpoch(5)
