"""The metadata quorum of one on a simulated disk: what was answered is there after any crash, and one fsync serves many."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random

import pytest

from ottla.base import ErrorCode, KafkaError, Millis, NodeId, StorageError, Uuid
from ottla.broker.quorum.driver import Quorum, QuorumSettings
from ottla.broker.quorum.formatting import format_quorum
from ottla.broker.quorum.log import METADATA_PARTITION
from ottla.broker.quorum.snapshot import list_snapshots
from ottla.config import BrokerConfig
from ottla.metadata import EMPTY_IMAGE, Delta, Endpoint, Image, decide
from ottla.raft import ReplicaKey
from ottla.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.process import Crash, Process
from tests.sim.seams import SimClock, SimOffload
from tests.sim.storage import Storage
from tests.sim.trace import Trace

pytestmark = [
    pytest.mark.filterwarnings("ignore:coroutine .* was never awaited:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""What a process leaves behind when it is killed."""

FOLDER = "/data"
KEY = ReplicaKey(NodeId(1), Uuid(b"d" * 16))
CONFIG = BrokerConfig.load("")


@dataclass
class Host:
    """One machine over many lives of one process."""

    seed: int
    loop: SimLoop = field(default_factory=SimLoop)
    settings: QuorumSettings = field(default_factory=QuorumSettings)

    def __post_init__(self) -> None:
        self.storage = Storage(Random(self.seed))
        self.clock = SimClock(self.loop)
        self.lives = 0

    def life(self, *, crash_at: int | None = None) -> Life:
        self.lives += 1
        process = Process(self.loop, f"life {self.lives}")
        rng = Random(f"{self.seed} {self.lives}")
        disk = SimDisk(self.storage, process, rng, Trace(), crash_at=crash_at, now_ms=self.clock.now_ms)
        return Life(self, process, disk, rng)

    def close(self) -> None:
        gc.collect()  # what killed processes left, while the loop can still be told
        self.loop.close()


@dataclass
class Life:
    host: Host
    process: Process
    disk: SimDisk
    rng: Random
    failures: list[StorageError] = field(default_factory=list)

    async def start(self) -> Quorum:
        """Format where nothing is, as a node does, and start."""
        if not self.disk.exists(f"{FOLDER}/meta.properties"):
            format_quorum(self.disk, FOLDER, voter=KEY, now_ms=self.host.clock.now_ms())
            self.disk.open(f"{FOLDER}/meta.properties", create=True).fsync()
            self.disk.fsync_dir(FOLDER)
            self.disk.fsync_dir("/")
        quorum = Quorum(
            key=KEY,
            folder=FOLDER,
            disk=self.disk,
            settings=self.host.settings,
            clock=self.host.clock,
            rng=self.rng,
            offload=SimOffload(self.rng),
            on_failure=self.failures.append,
        )
        await quorum.start()
        return quorum


def creating(name: str, rng: Random, partitions: int = 2):
    topics = [CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)]

    def decision(image: Image) -> decide.Decision[CreateTopicsResponse]:
        return decide.create_topics(image, CreateTopicsRequest(topics=topics), config=CONFIG, rng=rng)

    return decision


async def register(quorum: Quorum, incarnation: int) -> None:
    registration = decide.Registration(
        NodeId(1),
        Uuid(incarnation.to_bytes(16, "big")),
        (Endpoint("PLAINTEXT", "localhost", 9092),),
        log_dirs=(Uuid(b"a log directory "),),
    )
    epoch = await quorum.submit(lambda image: decide.register_broker(image, registration, supersede=True))
    await quorum.submit(
        lambda image: decide.heartbeat(image, NodeId(1), epoch, caught_up=True, want_fence=False, want_shut_down=False)
    )


async def work(life: Life, answered: dict[str, bytes], topics: int) -> None:
    """Start, register, and create topics, some at once; `answered` notes what was promised."""
    quorum = await life.start()
    await register(quorum, life.host.lives)
    for name, topic_id in answered.items():
        assert quorum.image.topics[name].id == topic_id, f"{name} was answered and is lost"
    image = quorum.image
    for round_ in range(topics):
        names = [f"t{life.host.lives}-{round_}-{index}" for index in range(1 + round_ % 3)]
        results = await asyncio.gather(*(quorum.submit(creating(name, life.rng)) for name in names))
        for name, result in zip(names, results, strict=True):
            assert result.topics[0].error_code == 0
            answered[name] = bytes(result.topics[0].topic_id)
            assert quorum.image.topics[name].id == answered[name], "an answer leaves after its image is published"
    assert quorum.image.offset > image.offset
    await quorum.stop()


@pytest.mark.parametrize(
    ("power", "step"),
    # every write at night: it takes half a minute, and the writes between are of the same few kinds
    [(True, 6), (False, 12), *(pytest.param(power, 1, marks=pytest.mark.slow) for power in (True, False))],
)
def test_what_was_answered_is_there_after_a_crash_at_any_write(power: bool, step: int) -> None:
    settings = QuorumSettings(snapshot_bytes=900, retention_bytes=1500)
    answered_in_all = 0
    crashes = range(1, 130, step)
    for crash_at in crashes:
        host = Host(crash_at, settings=settings)
        answered: dict[str, bytes] = {}
        for at in (crash_at, crash_at // 2 + 5, None):
            life = host.life(crash_at=at)
            try:
                host.loop.run_until_complete(life.process.run(work(life, answered, 6)))
            except Crash:
                pass
            else:
                life.process.kill()
            if power:
                host.storage.lose_power()
            host.storage.locks.clear()
        assert not life.failures and life.process is not None
        answered_in_all += len(answered)
        host.close()
    assert answered_in_all > 3 * len(crashes)


def test_replay_gives_the_image_that_was_live_before() -> None:
    host = Host(1)
    seen: list[Image] = []

    async def one(life: Life) -> None:
        quorum = await life.start()
        seen.append(quorum.image)
        await register(quorum, life.host.lives)
        for index in range(5):
            await quorum.submit(creating(f"t{life.host.lives}-{index}", life.rng))
        seen.append(quorum.image)
        await quorum.stop()

    for _ in range(3):
        life = host.life()
        host.loop.run_until_complete(life.process.run(one(life)))
        life.process.kill()
    for before, after in ((seen[1], seen[2]), (seen[3], seen[4])):
        assert after.topics == before.topics and after.brokers == before.brokers and after.features == before.features
        assert after.offset > before.offset, "the new leader has written its change"
    host.close()


def test_many_decisions_in_flight_share_one_fsync() -> None:
    host = Host(2)

    async def test(life: Life) -> None:
        quorum = await life.start()
        await register(quorum, 1)
        trace = life.disk._trace
        syncs_before = trace.count
        results = await asyncio.gather(*(quorum.submit(creating(f"t{index}", life.rng)) for index in range(50)))
        assert all(each.topics[0].error_code == 0 for each in results)
        changes = trace.count - syncs_before
        assert changes < 60, f"50 appends and {changes - 50} other changes of the disk"
        assert len(quorum.image.topics) == 50
        await quorum.stop()

    life = host.life()
    host.loop.run_until_complete(life.process.run(test(life)))
    host.close()


def test_decisions_see_what_those_before_them_will_leave() -> None:
    host = Host(3)

    async def test(life: Life) -> None:
        quorum = await life.start()
        await register(quorum, 1)
        first, second = await asyncio.gather(
            quorum.submit(creating("same", life.rng)), quorum.submit(creating("same", life.rng))
        )
        assert first.topics[0].error_code == 0
        assert second.topics[0].error_code == ErrorCode.TOPIC_ALREADY_EXISTS
        await quorum.stop()

    life = host.life()
    host.loop.run_until_complete(life.process.run(test(life)))
    host.close()


def test_a_failed_fsync_answers_nobody_and_reverts_to_what_is_committed() -> None:
    host = Host(4)

    async def test(life: Life) -> None:
        quorum = await life.start()
        await register(quorum, 1)
        await quorum.submit(creating("before", life.rng))
        life.disk.failing_syncs = 1
        with pytest.raises(KafkaError) as caught:
            await quorum.submit(creating("lost", life.rng))
        assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
        assert len(life.failures) == 1, "the node hears of it once, and stops"
        assert list(quorum.image.topics) == ["before"]
        with pytest.raises(KafkaError):
            await quorum.submit(creating("after", life.rng))
        await quorum.stop()

    life = host.life()
    host.loop.run_until_complete(life.process.run(test(life)))
    host.close()


def test_a_refused_decision_changes_nothing() -> None:
    host = Host(5)

    async def test(life: Life) -> None:
        quorum = await life.start()
        offset = quorum.image.offset

        def refuse(image: Image) -> decide.Decision[None]:
            raise KafkaError(ErrorCode.POLICY_VIOLATION)

        with pytest.raises(KafkaError):
            await quorum.submit(refuse)
        assert quorum.image.offset == offset
        await quorum.stop()

    life = host.life()
    host.loop.run_until_complete(life.process.run(test(life)))
    host.close()


def test_listeners_hear_every_commit_in_order_and_late_ones_the_whole() -> None:
    host = Host(6)

    async def test(life: Life) -> None:
        quorum = await life.start()
        await register(quorum, 1)
        heard: list[tuple[Image, Image, Delta]] = []
        quorum.subscribe(lambda old, new, delta: heard.append((old, new, delta)))
        assert heard[0][0] is EMPTY_IMAGE and heard[0][1] is quorum.image
        for name in "ab":
            await quorum.submit(creating(name, life.rng))
        assert all(before[1] is after[0] for before, after in pairwise(heard))
        assert [each for _, _, delta in heard[1:] for each in delta.topics_changed] == ["a", "b"]
        await quorum.stop()

    life = host.life()
    host.loop.run_until_complete(life.process.run(test(life)))
    host.close()


def test_snapshots_replace_old_segments_and_older_snapshots() -> None:
    host = Host(7, settings=QuorumSettings(snapshot_bytes=4_000, retention_bytes=20_000, segment_bytes=20_000))

    async def test(life: Life) -> None:
        quorum = await life.start()
        await register(quorum, life.host.lives)
        for index in range(60):
            await quorum.submit(creating(f"t{life.host.lives}-{index}", life.rng))
        await quorum.stop()

    for _ in range(3):
        life = host.life()
        host.loop.run_until_complete(life.process.run(test(life)))
        life.process.kill()
    life = host.life()
    folder = f"{FOLDER}/{METADATA_PARTITION}"
    snapshots = list_snapshots(life.disk, folder)
    assert 1 <= len(snapshots) <= 4, "older ones go as newer ones come"
    logs = sorted(entry.name for entry in life.disk.scan(folder) if entry.name.endswith(".log"))
    assert 0 < int(logs[0][:20]) <= snapshots[0][0].end_offset, "the log begins where a snapshot can stand for the rest"

    async def last(life: Life) -> None:
        quorum = await life.start()
        assert len(quorum.image.topics) == 180
        await quorum.stop()

    host.loop.run_until_complete(life.process.run(last(life)))
    host.close()


def test_a_commit_that_takes_too_long_is_said_to_have_timed_out() -> None:
    host = Host(8)

    async def test(life: Life) -> None:
        quorum = await life.start()
        await register(quorum, 1)
        with pytest.raises(KafkaError) as caught:
            await quorum.submit(creating("late", life.rng), timeout_ms=0)
        assert caught.value.code == ErrorCode.REQUEST_TIMED_OUT
        await quorum.submit(creating("next", life.rng))
        assert set(quorum.image.topics) == {"late", "next"}, "a timeout says nothing of the outcome"
        await quorum.stop()

    life = host.life()
    host.loop.run_until_complete(life.process.run(test(life)))
    host.close()


def test_formatting_twice_does_no_harm() -> None:
    host = Host(9)

    async def test(life: Life) -> None:
        for _ in range(2):
            format_quorum(life.disk, FOLDER, voter=KEY, now_ms=Millis(1))
        quorum = await life.start()
        assert quorum.image.metadata_version == 30 and quorum.status.voters.ids == (1,)
        await quorum.stop()

    life = host.life()
    host.loop.run_until_complete(life.process.run(test(life)))
    host.close()
