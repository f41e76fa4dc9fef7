"""What the metadata quorum does where its disk has no room: a decision happens whole or not at all, and the node goes on."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator

import pytest

from ottla.base import ErrorCode, KafkaError, NoSpaceError, StorageError
from ottla.broker.quorum.driver import Quorum, QuorumSettings
from ottla.broker.quorum.log import METADATA_PARTITION
from ottla.broker.quorum.snapshot import list_snapshots
from ottla.metadata import Image, decide
from tests.broker.test_quorum import FOLDER, Host, Life, creating, register

NO_BYTES = 0
PLENTY = 1 << 40


@pytest.fixture
def host() -> Iterator[Host]:
    made = Host(11, settings=QuorumSettings(snapshot_bytes=1 << 30))
    yield made
    made.close()


def run(host: Host, story: Callable[[Life, Quorum], Awaitable[None]], *, failures: int = 0) -> None:
    """Let a life go through a story, from a started quorum of one to a clean end."""
    life = host.life()

    async def whole() -> None:
        quorum = await life.start()
        await register(quorum, host.lives)
        await story(life, quorum)
        await quorum.stop()

    host.loop.run_until_complete(life.process.run(whole()))
    assert len(life.failures) == failures
    life.process.kill()
    host.storage.locks.clear()


def full(*names: str) -> Callable[[str, str], None]:
    """Return a hook that finds no room at calls whose path ends so."""

    def hook(call: str, path: str) -> None:
        if call in ("write", "create", "rename") and path.endswith(names):
            raise NoSpaceError(f"{path}: No space left on device", path)

    return hook


def hooked(life: Life, hook: Callable[[str, str], None]) -> None:
    """Ask `hook` before each call of the life's disk."""
    meet = type(life.disk).meet

    def asked(call: str, path: str) -> object:
        hook(call, path)
        return meet(life.disk, call, path)  # type: ignore[arg-type]

    life.disk.meet = asked  # type: ignore[method-assign, assignment]


def named(life: Life, ending: str) -> list[str]:
    return [each.name for each in life.disk.scan(f"{FOLDER}/{METADATA_PARTITION}") if each.name.endswith(ending)]


def test_a_decision_without_room_is_refused_and_leaves_nothing(host: Host) -> None:
    async def story(life: Life, quorum: Quorum) -> None:
        await quorum.submit(creating("before", life.rng))
        image, status = quorum.image, quorum.status
        host.storage.room_bytes = NO_BYTES
        for _ in range(3):
            results = await asyncio.gather(
                quorum.submit(creating("refused", life.rng)),
                quorum.submit(creating("too", life.rng)),
                return_exceptions=True,
            )
            assert [getattr(each, "code", each) for each in results] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
        assert quorum.is_leader and quorum.image is image and quorum.status == status
        host.storage.room_bytes = PLENTY
        await quorum.submit(creating("refused", life.rng))
        assert set(quorum.image.topics) == {"before", "refused"}

    async def again(life: Life, quorum: Quorum) -> None:
        assert set(quorum.image.topics) == {"before", "refused"}

    run(host, story)
    run(host, again)


def test_a_decision_of_several_batches_is_there_whole_or_not_at_all(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ottla.broker.quorum.driver.BATCH_RECORDS_MAX", 2)

    async def story(life: Life, quorum: Quorum) -> None:
        end = quorum.status.log_end_offset
        host.storage.room_bytes = 400
        with pytest.raises(KafkaError):
            await quorum.submit(creating("large", life.rng, partitions=30))
        assert host.storage.room_bytes < 400, "the first batches had room"
        assert quorum.status.log_end_offset == end
        host.storage.room_bytes = PLENTY
        await quorum.submit(creating("next", life.rng))
        assert set(quorum.image.topics) == {"next"}

    run(host, story)


def test_what_waits_for_its_commit_is_answered_beside_a_refused_decision(host: Host) -> None:
    async def story(life: Life, quorum: Quorum) -> None:
        def fills(image: Image) -> decide.Decision[None]:
            host.storage.room_bytes = NO_BYTES
            return creating("second", life.rng)(image)  # type: ignore[return-value]

        first, second = await asyncio.gather(
            quorum.submit(creating("first", life.rng)), quorum.submit(fills), return_exceptions=True
        )
        assert not isinstance(first, BaseException) and isinstance(second, KafkaError)
        assert set(quorum.image.topics) == {"first"}
        host.storage.room_bytes = PLENTY

    run(host, story)


def test_a_snapshot_without_room_leaves_no_part_and_is_written_when_there_is_some(host: Host) -> None:
    host.settings = QuorumSettings(snapshot_bytes=600)

    async def story(life: Life, quorum: Quorum) -> None:
        hooked(life, full(".checkpoint.part"))
        before = list_snapshots(life.disk, f"{FOLDER}/{METADATA_PARTITION}")
        for index in range(20):
            await quorum.submit(creating(f"t{index}", life.rng))
        await asyncio.sleep(1)
        assert list_snapshots(life.disk, f"{FOLDER}/{METADATA_PARTITION}") == before
        assert not named(life, ".part")
        hooked(life, lambda call, path: None)
        await asyncio.sleep(20)
        await quorum.submit(creating("later", life.rng))
        await asyncio.sleep(1)
        [*_, (newest, _)] = list_snapshots(life.disk, f"{FOLDER}/{METADATA_PARTITION}")
        assert newest.end_offset == quorum.status.high_watermark

    run(host, story)


def test_a_start_without_room_for_its_election_says_so_and_the_next_one_serves(host: Host) -> None:
    async def story(life: Life, quorum: Quorum) -> None:
        await quorum.submit(creating("kept", life.rng))

    run(host, story)
    life = host.life()
    hooked(life, full("quorum-state.tmp"))

    async def refused() -> None:
        with pytest.raises(NoSpaceError):
            await life.start()

    host.loop.run_until_complete(life.process.run(refused()))
    life.process.kill()
    host.storage.locks.clear()

    async def again(life: Life, quorum: Quorum) -> None:
        assert set(quorum.image.topics) == {"kept"}

    run(host, again)


def test_a_dead_disk_still_ends_the_node(host: Host) -> None:
    async def story(life: Life, quorum: Quorum) -> None:
        def dead(call: str, path: str) -> None:
            if call == "write":
                raise StorageError(f"{path}: Input/output error", path)

        hooked(life, dead)
        with pytest.raises(KafkaError) as caught:
            await quorum.submit(creating("lost", life.rng))
        assert caught.value.code is ErrorCode.KAFKA_STORAGE_ERROR and not isinstance(life.failures[0], NoSpaceError)

    run(host, story, failures=1)


def test_what_was_cut_while_it_was_flushed_and_came_anew_is_not_said_to_be_durable(host: Host) -> None:
    async def story(life: Life, quorum: Quorum) -> None:
        log = quorum._log
        end = log.end_offset
        log.begin_flush()
        log.truncate_to(end - 1)
        assert log.end_flush() == log.end_offset < end

    life = host.life()

    async def whole() -> None:
        quorum = await life.start()
        await story(life, quorum)
        quorum.abandon()

    host.loop.run_until_complete(life.process.run(whole()))
