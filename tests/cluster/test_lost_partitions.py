"""A partition whose own files are lost, in a directory that is well: another copy leads, until it can be opened again."""

from __future__ import annotations

from ottla.base import MissingFileError, NodeId
from ottla.broker.replicas.partitions import Partitions
from ottla.log import join
from ottla.metadata import DIRECTORY_LOST
from tests.broker.node_client import parts
from tests.cluster.nodes import SimCluster
from tests.cluster.test_lives import active, create, followers, partition

ASIDE = "/data/t-0/aside"
TOPIC_ID = "/data/t-0/partition.metadata"


async def lose(partitions: Partitions) -> str:
    """Take a partition's first file away, meet that as a read does, and return its path."""
    held = partitions.get("t", 0)
    assert held is not None
    path = join(held.log.folder, f"{0:020}.log")
    partitions._storage.disk.rename(path, ASIDE)
    partitions.failures.met(MissingFileError("no such file", path), held)
    assert held.is_offline
    return path


def test_another_copy_leads_what_is_lost_on_its_leaders_disk_until_that_is_mended() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        controller = await cluster.led()
        broken, other = followers(cluster, controller)
        await create(cluster, other, "t", [broken, other])
        await create(cluster, other, "u", [broken, other])
        await cluster.until(lambda: len(partition(cluster, other).isr) == 2)
        directory = partition(cluster, other).directory_of(NodeId(broken))
        node = cluster.node(broken)
        path = await cluster.on(broken, lose(parts(node).partitions))
        await cluster.until(lambda: partition(cluster, other).leader == other, 3.0)
        found = partition(cluster, other)
        assert found.isr == (other,) and found.directory_of(NodeId(broken)) == DIRECTORY_LOST
        assert broken not in found.eligible_leader_replicas, "it may lack what it had"
        assert partition(cluster, other, "u").leader == broken and broken in active(cluster, other)
        await cluster.stop(broken)
        cluster.disk(broken).rename(ASIDE, path)
        await cluster.start(broken)
        await cluster.until(lambda: set(partition(cluster, other).isr) == {broken, other})
        assert partition(cluster, other).directory_of(NodeId(broken)) == directory

    SimCluster(41).run(test)


def test_the_only_copy_has_no_leader_while_it_cannot_be_opened() -> None:
    async def test(cluster: SimCluster) -> None:
        cluster.static(3)
        await cluster.start()
        controller = await cluster.led()
        broken, other = followers(cluster, controller)
        await create(cluster, other, "t", [broken])
        await cluster.until(lambda: parts(cluster.node(broken)).partitions.get("t", 0))
        await cluster.stop(broken)
        disk = cluster.disk(broken)
        sound = disk.read(TOPIC_ID)
        assert sound is not None
        at = sound.index(b"topic_id: ") + 12
        write(cluster, broken, sound[:at] + (b"A" if sound[at : at + 1] != b"A" else b"B") + sound[at + 1 :])
        await cluster.start(broken)
        await cluster.until(lambda: partition(cluster, other).directory_of(NodeId(broken)) == DIRECTORY_LOST)
        assert partition(cluster, other).leader == -1
        await cluster.stop(broken)
        write(cluster, broken, sound)
        await cluster.start(broken)
        await cluster.until(lambda: partition(cluster, other).leader == broken)

    SimCluster(42).run(test)


def write(cluster: SimCluster, node_id: int, data: bytes) -> None:
    file = cluster.disk(node_id).open(TOPIC_ID)
    file.truncate(0)
    file.pwrite(0, data)
    file.fsync()
    file.close()
