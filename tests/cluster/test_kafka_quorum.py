"""One metadata log among controllers of the real Kafka and ours: each leads, follows, fails over and catches up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ottla.base import NodeId, Uuid, uuid_text
from ottla.raft import ReplicaKey, Voter, VoterEndpoint, VoterSet
from tests import peer
from tests.cluster.kafka_controllers import KafkaNode
from tests.cluster.nodes import LoopbackCluster
from tests.cluster.test_quorum import noting

# Two of Kafka's controllers start; a cluster of both kinds is in every run in test_kafka_brokers.py.
pytestmark = [pytest.mark.peer, pytest.mark.slow]
OURS, KAFKAS = 1, (2, 3)
SOON, LATE = "controller.quorum.election.timeout.ms=50", "controller.quorum.election.timeout.ms=4000"


class Mixed:
    """Our controller 1 beside Kafka's."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ours = LoopbackCluster(folder)
        self.kafkas: dict[int, KafkaNode] = {}

    def kafka(self, node_id: int, *settings: str, voters: VoterSet | None = None) -> KafkaNode:
        """Set up a controller of Kafka."""
        home = self.folder / f"kafka-{node_id}"
        overrides = [
            "process.roles=controller",
            f"node.id={node_id}",
            f"listeners=CONTROLLER://{self.ours.controller_address(node_id)}",
            "controller.listener.names=CONTROLLER",
            "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
            f"log.dirs={home / 'data'}",
            *settings,
        ]
        self.kafkas[node_id] = node = KafkaNode.format(node_id, home, overrides, voters)
        return node

    def run(self, test: Callable[[Mixed], object], seconds: float = 150) -> None:
        """Run a test, and end every node whatever comes."""

        async def whole(_: LoopbackCluster) -> None:
            await test(self)  # type: ignore[misc]

        try:
            self.ours.run(whole, seconds)
        finally:
            for each in self.kafkas.values():
                each.kill()

    async def led_by(self, *wanted: int) -> int:
        """Wait until our controller knows one of these as leader."""
        found: int = await self.ours.until(lambda: next((each for each in wanted if each == self.leader), None))
        return found

    @property
    def leader(self) -> int | None:
        """Who leads, as our controller knows."""
        return self.ours.quorum(OURS).leader[0]

    async def note(self, name: str) -> None:
        """Write a record while our controller leads; a majority, so a Kafka among them, holds it then."""
        await self.ours.quorum(OURS).submit(noting(name, "v"))

    async def tool(self, *arguments: str, at: int) -> str:
        """Run Kafka's `metadata-quorum` against a controller and return what it prints."""
        address = self.ours.controller_address(at)
        done = await asyncio.to_thread(peer.tool, "metadata-quorum", "--bootstrap-controller", address, *arguments)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


@pytest.fixture
def mixed(tmp_path: Path) -> Iterator[Mixed]:
    if reason := peer.missing():
        pytest.skip(reason)
    yield Mixed(tmp_path)


def test_kafka_leads_and_our_controller_follows_through_failover_and_restart(mixed: Mixed) -> None:
    async def test(_: Mixed) -> None:
        voters = mixed.ours.static_voters((OURS, *KAFKAS))
        mixed.ours.add(OURS, roles="controller", quorum=voters, settings=[LATE])
        for each in KAFKAS:
            mixed.kafka(each, voters, SOON).start()
        await mixed.ours.start(OURS)
        first = await mixed.led_by(*KAFKAS)
        await mixed.ours.until(lambda: set(mixed.ours.quorum(OURS).image.controllers) >= set(KAFKAS))
        mixed.kafkas[first].kill()
        await mixed.led_by(*(each for each in (OURS, *KAFKAS) if each != first))
        mixed.kafkas[first].start()
        await mixed.ours.stop(OURS)
        await mixed.ours.start(OURS)
        await mixed.led_by(*KAFKAS, OURS)

    mixed.run(test)


def test_our_controller_leads_two_of_kafka_and_hands_over(mixed: Mixed) -> None:
    async def test(_: Mixed) -> None:
        voters = mixed.ours.static_voters((OURS, *KAFKAS))
        mixed.ours.add(OURS, roles="controller", quorum=voters, settings=[SOON])
        for each in KAFKAS:
            mixed.kafka(each, voters, LATE).start()
        await mixed.ours.start(OURS)
        await mixed.led_by(OURS)
        await mixed.note("a")
        quorum = mixed.ours.quorum(OURS)
        await mixed.ours.until(
            lambda: all(
                quorum.status.replicas[NodeId(each)].end_offset == quorum.status.log_end_offset for each in KAFKAS
            )
        )
        await mixed.ours.stop(OURS)
        ours = mixed.ours.hosts[OURS]
        ours.overrides = tuple(each.replace(SOON, LATE) for each in ours.overrides)
        await mixed.ours.start(OURS)
        assert await mixed.led_by(*KAFKAS) in KAFKAS
        assert mixed.ours.quorum(OURS).image.topic_config("a")["k"] == "v"

    mixed.run(test)


def test_a_dynamic_quorum_of_both_changes_its_voters_by_kafkas_own_tool(mixed: Mixed) -> None:
    async def test(_: Mixed) -> None:
        cluster = mixed.ours
        asked = cluster.bootstrap(OURS, *KAFKAS)
        initial = VoterSet.of(_voter(cluster, each) for each in (OURS, 2))
        cluster.add(OURS, roles="controller", quorum=asked, voters=initial, settings=[SOON])
        mixed.kafka(2, asked, LATE, voters=initial).start()
        joining = mixed.kafka(3, asked, voters=VoterSet())
        await cluster.start(OURS)
        await mixed.led_by(OURS)
        joining.start()
        quorum = cluster.quorum(OURS)
        await cluster.until(lambda: 3 in quorum.status.replicas and quorum.status.replicas[NodeId(3)].caught_up_at)
        shown = await mixed.tool("describe", "--replication", at=OURS)
        assert [line.split()[-1] for line in shown.splitlines()[1:]] == ["Leader", "Follower", "Observer"], shown
        settings = str(joining.folder / "server.properties")
        await mixed.tool("--command-config", settings, "add-controller", at=OURS)
        await cluster.until(lambda: quorum.status.voters.ids == (1, 2, 3))
        shown = await mixed.tool("describe", "--status", at=2)
        assert ["LeaderId:", str(OURS)] in [line.split() for line in shown.splitlines()], shown
        directory = uuid_text(quorum.key.directory_id)
        removal = ("remove-controller", "--controller-id", str(OURS), "--controller-directory-id", directory)
        await mixed.tool(*removal, at=OURS)
        await mixed.led_by(*KAFKAS)
        await cluster.until(lambda: quorum.status.voters.ids == KAFKAS)

    mixed.run(test)


def _voter(cluster: LoopbackCluster, node_id: int) -> Voter:
    host, _, port = cluster.controller_address(node_id).rpartition(":")
    key = ReplicaKey(NodeId(node_id), Uuid(b"directory of vot"[:15] + bytes([node_id])))
    return Voter(key, (VoterEndpoint("CONTROLLER", host, int(port)),))


SNAPSHOTS = (
    "metadata.log.max.record.bytes.between.snapshots=300",
    "internal.metadata.log.segment.bytes=1024",
    "metadata.max.retention.bytes=600",
    "internal.metadata.delete.delay.millis=100",
)


def test_a_late_controller_of_kafka_loads_our_snapshot(mixed: Mixed) -> None:
    async def test(_: Mixed) -> None:
        voters = mixed.ours.static_voters((OURS, *KAFKAS))
        mixed.ours.add(OURS, roles="controller", quorum=voters, settings=[SOON, *SNAPSHOTS])
        mixed.kafka(2, voters, LATE).start()
        await mixed.ours.start(OURS)
        await mixed.led_by(OURS)
        for at in range(40):
            await mixed.note(f"topic-{at}")
        quorum = mixed.ours.quorum(OURS)
        await mixed.ours.until(lambda: quorum.log_start_offset > 20)
        late = mixed.kafka(3, voters, LATE)
        late.start()
        await mixed.ours.until(
            lambda: (
                3 in quorum.status.replicas
                and quorum.status.replicas[NodeId(3)].end_offset == quorum.status.log_end_offset
            )
        )
        mixed.kafkas[2].kill()
        await mixed.note("with the one that came late")

    mixed.run(test)


def test_our_late_controller_loads_a_snapshot_of_kafka(mixed: Mixed) -> None:
    async def test(_: Mixed) -> None:
        voters = mixed.ours.static_voters((OURS, *KAFKAS))
        mixed.ours.add(OURS, roles="controller", quorum=voters, settings=[LATE])
        for each in KAFKAS:
            mixed.kafka(each, voters, *SNAPSHOTS).start()
        log_dir = mixed.folder / "kafka-2" / "data" / "__cluster_metadata-0"
        await mixed.ours.until(lambda: len(list(log_dir.glob("*.checkpoint"))) > 1)
        await mixed.ours.until(lambda: not (log_dir / f"{0:020d}.log").exists())
        await mixed.ours.start(OURS)
        await mixed.led_by(*KAFKAS)
        quorum = mixed.ours.quorum(OURS)
        assert quorum.log_start_offset > 0
        await mixed.ours.until(lambda: set(quorum.image.controllers) >= {OURS, *KAFKAS})

    mixed.run(test)
