"""A wrong bit in committed metadata ends the start and says where it is; it takes no decision back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ottla.base import CorruptionError
from ottla.broker.quorum.driver import QuorumSettings
from ottla.broker.quorum.log import METADATA_PARTITION
from ottla.broker.quorum.snapshot import list_snapshots
from tests.broker.test_quorum import FOLDER, Host, creating, register

LOG = f"{FOLDER}/{METADATA_PARTITION}/00000000000000000000.log"


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host(12, settings=QuorumSettings(snapshot_bytes=1 << 30))
    yield made
    made.close()


def killed_after_topics(host: Host, *names: str) -> None:
    life = host.life()

    async def story() -> None:
        quorum = await life.start()
        await register(quorum, host.lives)
        for name in names:
            await quorum.submit(creating(name, life.rng))

    host.loop.run_until_complete(life.process.run(story()))
    life.process.kill()
    host.storage.locks.clear()


@pytest.mark.parametrize("from_end", [3, 200, 600])
def test_a_wrong_bit_in_committed_metadata_ends_the_start_and_cuts_nothing(host: Host, from_end: int) -> None:
    killed_after_topics(host, "first", "second", "third")
    data = host.storage.inode(LOG).data
    data[len(data) - from_end] ^= 0x10
    before = bytes(data)
    life = host.life()
    with pytest.raises(CorruptionError, match="had been flushed"):
        host.loop.run_until_complete(life.process.run(life.start()))
    life.process.kill()
    assert bytes(host.storage.inode(LOG).data) == before


def test_a_log_that_never_reached_the_device_is_no_damage_though_a_snapshot_of_what_it_held_did() -> None:
    host = Host(13, settings=QuorumSettings(snapshot_bytes=4_000))
    life = host.life()

    async def before() -> None:
        quorum = await life.start()
        await register(quorum, host.lives)
        for index in range(60):
            await quorum.submit(creating(f"t{index}", life.rng))
        await quorum.stop()

    host.loop.run_until_complete(life.process.run(before()))
    life.process.kill()
    life = host.life()
    newest = list_snapshots(life.disk, f"{FOLDER}/{METADATA_PARTITION}")[-1][0].end_offset
    assert newest > 30
    life.disk.unlink(f"{FOLDER}/{METADATA_PARTITION}/flush-mark")
    data = host.storage.inode(LOG).data
    del data[len(data) // 4 :]

    async def again() -> None:
        quorum = await life.start()
        assert quorum.image.offset >= newest
        assert quorum.image.topic("t0") is not None
        await quorum.stop()

    host.loop.run_until_complete(life.process.run(again()))
    life.process.kill()
    host.close()


def test_a_torn_decision_that_was_never_committed_is_cut(host: Host) -> None:
    killed_after_topics(host, "first")
    host.storage.inode(LOG).data.extend(b"\x00" * 11 + b"torn")
    life = host.life()

    async def again() -> None:
        quorum = await life.start()
        assert quorum.image.topic("first") is not None
        await quorum.stop()

    host.loop.run_until_complete(life.process.run(again()))
    life.process.kill()
