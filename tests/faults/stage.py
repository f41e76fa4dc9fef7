"""Where stories of logs are played: log directories on a faulty disk, and what was said of each log in them.

Every operation goes through `Stage.do`. Where its disk fails, the stage looks at the log as it is in memory, at copies of
the disk as a kill and as a power loss would leave it, and then does what a broker would: after NoSpaceError the operation
is tried again and the story goes on; after any other error the process ends, and the next one recovers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any, TypeVar

from ottla.base import NodeId, StorageError, TopicPartition, Uuid
from ottla.log import (
    AppendOrigin,
    CleanerBuffers,
    Log,
    LogConfig,
    LogDir,
    MetaProperties,
    NoSpaceError,
    clean,
    cleanable,
    delete_folder,
    install,
    plan_cleaning,
)
from ottla.log.swap import cleaned_files
from ottla.wire import Record, build_batch, read_batch_header
from tests.faults.disk import FaultyDisk, Watch
from tests.faults.said import Broken, Said, State, records_of
from tests.faults.soundness import batches_of, check_files, check_sound
from tests.log.records import NOW, marker
from tests.sim.disk import SimDisk
from tests.sim.loop import SimLoop
from tests.sim.process import Process
from tests.sim.storage import Storage
from tests.sim.trace import Trace

__all__ = ["AFTER_POWER", "CONFIG", "Over", "Stage"]

T = TypeVar("T")
LOOP = SimLoop()
CONFIG = LogConfig(segment_bytes=600, index_interval_bytes=1, file_delete_delay_ms=5, retention_ms=-1)
TOPIC_IDS = {"t": Uuid(b"t" * 16), "u": Uuid(b"u" * 16)}
AGAIN_ID = Uuid(b"a" * 16)


class Over(Exception):
    """The operation has failed in a way after which its process does not use the directory any more."""


class _Extreme(Random):
    """Chance that always falls one way: `content` for dirty sectors and sizes, `names` for changes of folders."""

    def __init__(self, *, content: bool, names: bool) -> None:
        super().__init__(0)
        self._content, self._names = content, names

    def random(self) -> float:
        return 0.99 if self._content else 0.0

    def randrange(self, *bounds: int) -> int:  # type: ignore[override]
        return bounds[0] - 1 if self._names else 0

    def choice(self, found: Any) -> Any:
        return found[0]


AFTER_POWER: dict[str, Callable[[], Random]] = {
    "nothing unsynced": lambda: _Extreme(content=False, names=False),
    "names only": lambda: _Extreme(content=False, names=True),
    "content only": lambda: _Extreme(content=True, names=False),
    "a mixture": lambda: Random(7),
}
"""What a power loss leaves of what was not made durable."""


class Stage:
    """A host, its disk, and the one process on it."""

    def __init__(self, *, at: int = 0, kind: str = "", paths: tuple[str, ...] = ("data",)) -> None:
        self.storage = Storage(Random(1))
        self.now = NOW
        self.faults = Watch(at=at, kind=kind)
        self.paths = paths
        self.said: dict[str, Said] = {}
        self.ids = dict(TOPIC_IDS)
        self.configs: dict[str, LogConfig] = {}
        self.places: dict[str, int] = {}
        self.epoch = 0
        self.count = 0
        self.looked = False
        self.deleting: set[str] = set()
        """Logs that may be there still or not any more."""
        self.disk = self._disk()
        self.dirs: list[LogDir] = []

    def _disk(self) -> FaultyDisk:
        self.process = Process(LOOP, "broker")
        disk = SimDisk(self.storage, self.process, Random(3), Trace(), now_ms=lambda: self.now)
        return FaultyDisk(disk, self.faults)

    # -- the process

    def start(self) -> None:
        """Take the directories and open every log that is known, as a broker's start does."""
        self.dirs = [LogDir.open(self.disk, path) for path in self.paths]
        for at, each in enumerate(self.dirs):
            if each.meta is None:
                each.format(
                    MetaProperties(cluster_id="c", node_id=NodeId(1), directory_id=Uuid(bytes(15) + bytes([at])))
                )
            each.found()
        for name in list(self.said):
            if name in self.deleting and not self.disk.exists(self.dir_of(name).folder_of(key_of(name))):
                del self.said[name]
            else:
                self.open(name)

    def start_again(self) -> None:
        """Start in a process that has done nothing, and find what is promised; where that fails it ends."""
        self.do(self.start, ends=True)
        watching, self.faults.on = self.faults.on, False
        self.check("kill")
        self.adopt()
        self.faults.on = watching

    def stop(self) -> None:
        """End cleanly; the next process finds everything durable."""
        self.do(self.end_cleanly, ends=True)
        for said in self.said.values():
            said.durable_end, said.stored_start = said.state.end, said.start
        self.process_again()

    def process_again(self) -> None:
        """End the process at once, where it still runs; another one is there, and calls are counted on."""
        self.process.kill()
        self.dirs = []
        self.disk = self._disk()

    def open(self, name: str) -> Log:
        """Open a log where it is, or make it."""
        key = key_of(name)
        log_dir = self.dir_of(name)
        config = self.configs.get(name, CONFIG)
        return log_dir.open_log(key, config, now_ms=self.now, topic_id=self.ids[key.topic])

    def create(self, name: str, config: LogConfig = CONFIG) -> None:
        """Make a log, of which nothing was said before."""
        self.configs[name] = config
        said = self.said[name] = Said(is_compact=config.compacts)
        said.becoming(said.state)
        self.do(lambda: self.reopen(name))
        said.became(said.state)

    def reopen(self, name: str) -> Log:
        """Open a log that an earlier try may have left half open."""
        key = key_of(name)
        return self.dir_of(name).logs.get(key) or self.open(name)

    def dir_of(self, name: str) -> LogDir:
        """Return the directory in which a log lies."""
        return self.dirs[self.places.get(name, 0)]

    def log(self, name: str) -> Log:
        """Return an open log."""
        return self.dir_of(name).logs[key_of(name)]

    def watch(self) -> None:
        """From here on calls are counted."""
        self.faults.on = True

    def do(self, operation: Callable[[], T], *, ends: bool = False) -> T:
        """Do something; where the disk fails, look around and do it again; or end, always where `ends` says so."""
        try:
            return operation()
        except StorageError as error:
            if self.faults.failed is None or self.looked:
                raise Broken(f"it fails without a failure of the disk: {error!r}") from error
            self.looked = True
            if not ends:
                self._look_around(error)
            if ends or not isinstance(error, NoSpaceError):
                raise Over from error
            self.faults.mend()
        return operation()

    def _look_around(self, error: StorageError) -> None:
        """The operation has failed: what is in memory is right, and so is what a kill or a power loss would leave."""
        watching, self.faults.on = self.faults.on, False
        self.faults.mend()
        no_space = isinstance(error, NoSpaceError)
        for name, said in self.said.items():
            log = self.dir_of(name).logs.get(key_of(name)) if self.dirs else None
            if log is not None and (no_space or not self._lost_a_write):
                try:
                    said.check_same_process(log, may_have_happened=bool(said.starts) or not said.doing or not no_space)
                    check_sound(log)
                except Exception as found:
                    raise Broken(f"after the failure, in memory, {name}: {found}") from found
        if no_space:
            doing = {name: said.doing for name, said in self.said.items()}
            self.look_at_copies("after the failure")
            for name, states in doing.items():
                self.said[name].doing = states
        self.faults.on = watching

    @property
    def _lost_a_write(self) -> bool:
        failed = self.faults.failed
        return failed is not None and failed.name in ("fsync", "fsync_dir")

    def look_at_copies(self, when: str, *, kill: bool = True, powers: tuple[str, ...] = ("nothing unsynced",)) -> None:
        """What a kill, and what power losses, would leave is right, and can be gone on with."""
        if kill:
            self._look_at_copy(f"{when}, killed", None)
        for each in powers:
            self._look_at_copy(f"{when}, power lost ({each})", AFTER_POWER[each]())

    def _look_at_copy(self, when: str, power: Random | None) -> None:
        storage = self.storage.copy(power or Random(1))
        if power is not None:
            storage.lose_power()
        other = self._on(storage)
        try:
            other.start()
            other.check("power" if power is not None else "kill")
            other.go_on()
        except Exception as found:
            raise Broken(f"{when}: {type(found).__name__}: {found}") from found

    def _on(self, storage: Storage) -> Stage:
        """Return the same world with another disk, and a process that finds it."""
        other = Stage.__new__(Stage)
        other.__dict__.update(self.__dict__)
        other.storage, other.faults = storage, Watch()
        other.said = {
            name: replace(said, doing=list(said.doing), starts=set(said.starts), given=dict(said.given))
            for name, said in self.said.items()
        }
        other.ids, other.configs, other.places = dict(self.ids), dict(self.configs), dict(self.places)
        other.looked = False
        other.dirs = []
        other.disk = other._disk()
        return other

    @property
    def failed(self) -> bool:
        """True where the call that was to fail has been made."""
        return self.faults.failed is not None

    def ended(self, when: str, *, kill: bool, powers: tuple[str, ...]) -> None:
        """The process has ended: look at what the next one finds."""
        self.process.kill()
        self.look_at_copies(when, kill=kill, powers=powers)

    def end_at_last(self) -> None:
        """The story is over: go on a little, end cleanly, and look at what the next start finds."""
        self.go_on()

    # -- looking

    def check(self, after: str) -> None:
        """Look at every log: `after` is "kill", "power", or "" in a process that goes on."""
        for name, said in self.said.items():
            log = self.log(name)
            try:
                if after == "kill":
                    said.check_after_kill(log)
                elif after == "power":
                    said.check_after_power_loss(log)
                else:
                    said.check_same_process(log, may_have_happened=False)
                check_sound(log)
            except Exception as found:
                raise Broken(f"{name}: {found}") from found

    def adopt(self) -> None:
        """Take what was found for what was said: the crash is over."""
        for name, said in self.said.items():
            log = self.log(name)
            compacted = said.state.compacted or any(each.compacted for each in said.doing)
            said.became(State(records_of(log), int(log.log_end_offset), compacted))
            said.coming_back = []
            said.start = int(log.log_start_offset)
            said.stored_start = min(said.stored_start, said.start)

    def go_on(self) -> None:
        """The next operations work: appends, a roll, a flush, a clean end, and everything is there at the next start."""
        self.adopt()
        for name in self.said:
            for _ in range(3):
                self.append(name, 2)
            self.append(name, 1, producer=97)
            self.log(name).roll(self.now)
            self.append(name, 1, producer=97)
            self.settle(name)
        self.check("")
        self.end_cleanly()
        for said in self.said.values():
            said.stored_start = said.start
        self.disk = self._disk()
        self.start()
        self.check("")
        self.process.kill()

    def settle(self, name: str) -> None:
        """Let what was set aside go, and look that the folder has nothing else."""
        self.now += 1_000
        log = self.log(name)
        for _ in range(2):
            for path in log.housekeep(self.now, high_watermark=0):
                self.disk.unlink(path)
        check_files(self.storage, log)

    def end_cleanly(self) -> None:
        """Close every directory."""
        for each in self.dirs:
            each.close(high_watermarks={key: (log, log.log_end_offset) for key, log in each.logs.items()})

    # -- operations on a log

    def append(
        self, name: str, count: int, *, producer: int = -1, transactional: bool = False, key: bytes = b""
    ) -> None:
        """Append a batch as a leader does."""
        said, log = self.said[name], self.log(name)
        self.now += 7
        end = said.state.end
        values = []
        for _ in range(count):
            self.count += 1
            values.append(b"%s=%d" % (key or b"k%d" % self.count, self.count))
        said.becoming(extended(said.state, values))
        data = self._batch(log, values, producer, transactional)
        info = self.do(lambda: log.append(bytearray(data), leader_epoch=self.epoch, now_ms=self.now))
        if info.first_offset != end or info.duplicate:
            raise Broken(f"{name}: offset {info.first_offset} was given out, {end} was next")
        said.became(said.doing[0])

    def append_joined(self, name: str, counts: list[int], *, producer: int = -1) -> None:
        """Append batches of these sizes by one write, as a leader does with what one read of a socket has brought."""
        said, log = self.said[name], self.log(name)
        self.now += 7
        values = []
        for count in counts:
            values.append([b"k%d=%d" % (self.count + at, self.count + at) for at in range(1, count + 1)])
            self.count += count
        end = said.state.end
        states = [said.state]
        for each in values:
            states.append(extended(states[-1], each))
        said.becoming(*states[1:])
        data, ahead = [], 0
        for each in values:
            data.append(self._batch(log, each, producer, transactional=False, ahead=ahead))
            ahead += len(each)

        def append() -> int:
            sent = [bytearray(each) for each in data]
            try:
                planned = log.plan_joined([(each, read_batch_header(each)) for each in sent], now_ms=self.now)
                if planned is None:
                    return -1
                return log.append_planned(planned, leader_epoch=self.epoch, now_ms=self.now)
            except StorageError:
                if sent != data:
                    raise Broken(f"{name}: batches that were not appended are marked as if they were") from None
                raise

        first = self.do(append)
        if first != end:
            raise Broken(f"{name}: offset {first} was given out, {end} was next")
        said.became(states[-1])

    def _batch(
        self, log: Log, values: list[bytes], producer: int, transactional: bool, base_offset: int = 0, *, ahead: int = 0
    ) -> bytes:
        """Return a batch; `ahead` records of its producer come before it, and are not in the log yet."""
        entry = log.producers.entries.get(producer)
        sequence = ahead + (entry.last_sequence + 1 if entry is not None else 0)
        records = [
            Record(base_offset + at, self.now, value.partition(b"=")[0], value, ())  # type: ignore[arg-type]
            for at, value in enumerate(values)
        ]
        return bytes(
            build_batch(
                records,
                base_offset=base_offset,
                leader_epoch=self.epoch if base_offset else -1,
                producer_id=producer,
                producer_epoch=0 if producer >= 0 else -1,
                base_sequence=sequence if producer >= 0 else -1,
                transactional=transactional,
            )
        )

    def end_transaction(self, name: str, producer: int, *, commit: bool) -> None:
        """Append a marker as a coordinator does."""
        said, log = self.said[name], self.log(name)
        said.becoming(extended(said.state, [None]))
        data = marker(producer, 0, commit=commit)
        self.do(
            lambda: log.append(
                bytearray(data), leader_epoch=self.epoch, now_ms=self.now, origin=AppendOrigin.COORDINATOR
            )
        )
        said.became(said.doing[0])

    def replicate(self, name: str, batches: bytes, states: list[State]) -> None:
        """Append what a leader sent, of which any number of batches may be taken; the states say what each leads to."""
        said, log = self.said[name], self.log(name)
        said.becoming(*states)
        said.starts = {said.start}

        def take() -> None:
            left = bytes(batches)
            for header, _ in batches_of(batches):  # a follower fetches from where its log ends
                if header.next_offset <= log.log_end_offset:
                    left = left[header.size :]
            if left:
                log.append_replicated(bytearray(left), leader_epoch=1 << 30, now_ms=self.now)

        self.do(take)
        said.became(states[-1])

    def call(self, name: str, operation: Callable[[Log], Any], *states: State, starts: Any = ()) -> None:
        """Do something to a log that makes the first state of it; broken off it has left it as it is, or in any of them."""
        said, log = self.said[name], self.log(name)
        said.becoming(*(states or (said.state,)), starts={said.start, *starts})
        self.do(lambda: operation(log))
        said.became(said.doing[0])
        said.start = int(log.log_start_offset)
        if said.starts and said.start not in said.starts:
            raise Broken(f"{name}: begins at {said.start}")

    def roll_once(self, name: str) -> None:
        """Begin a segment; where that is refused nobody asks again, and the log goes on in the one before."""
        self.now += 7
        log = self.log(name)
        asked = [False]

        def once() -> None:
            if not asked[0]:
                asked[0] = True
                log.roll(self.now)

        self.do(once)

    def roll(self, name: str) -> None:
        """Begin a segment."""
        self.now += 7
        self.call(name, lambda log: log.roll(self.now))

    def flush(self, name: str) -> None:
        """Make a log durable."""
        said = self.said[name]
        self.call(name, lambda log: log.flush(now_ms=self.now))
        said.durable_end = said.state.end

    def truncate(self, name: str, offset: int, *, end: int | None = None) -> None:
        """Cut a log, and store that, as a follower does before it goes on."""
        said = self.said[name]
        cut = offset if end is None else end
        # what is cut off goes segment by segment, so that it may end anywhere between when it is broken off
        states = [
            State({each: value for each, value in said.state.values.items() if each < at}, at)
            for at in range(cut, said.state.end)
        ]
        said.durable_end = min(said.durable_end, cut)
        said.coming_back = [said.state, *states]
        self.call(name, lambda log: log.truncate_to(offset), *states)
        self.do(self.dir_of(name).write_recovery_points)

    def restart(self, name: str, offset: int) -> None:
        """Begin a log anew, as a follower does that was away for too long."""
        said = self.said[name]
        said.durable_end = 0
        said.stored_start = 0
        gone = [
            State({each: value for each, value in said.state.values.items() if each < at}, at)
            for at in range(said.start, said.state.end)
        ]
        coming_back = [said.state, *gone, State({}, 0)]
        self.call(
            name, lambda log: log.truncate_fully_and_start_at(offset), State({}, offset), *coming_back, starts={offset}
        )
        said.coming_back = coming_back
        self.do(self.dir_of(name).write_recovery_points)
        self.do(self.dir_of(name).write_start_offsets)
        said.stored_start = offset
        said.durable_end = offset

    def delete_before(self, name: str, offset: int) -> None:
        """Delete records, and store where the log begins."""
        said = self.said[name]
        self.call(name, lambda log: log.delete_records_before(offset), starts={offset})
        self.do(self.dir_of(name).write_start_offsets)
        said.stored_start = said.start

    def housekeep(self, name: str, *, wait_ms: int = 0) -> None:
        """Apply retention and unlink what is due."""
        self.now += wait_ms
        said = self.said[name]
        bases = {int(each.base_offset) for each in self.log(name).segments} | {said.state.end}
        gone: list[str] = []
        self.call(name, lambda log: gone.extend(log.housekeep(self.now)), starts=bases)
        for path in gone:
            self.do(lambda path=path: self.disk.unlink(path))  # type: ignore[misc]

    def compact(self, name: str) -> None:
        """Clean a log as the log cleaner does."""
        said, log = self.said[name], self.log(name)
        after = replace(said.state, compacted=True)
        self.do(lambda: log.flush(now_ms=self.now))
        said.durable_end = said.state.end

        tries = [0]

        def run() -> None:
            tries[0] += 1
            if tries[0] > 1:  # the files may owe an exchange, which housekeeping makes
                for path in log.housekeep(self.now):
                    self.disk.unlink(path)
            found = cleanable(log, last_stable_offset=log.last_stable_offset, now_ms=self.now)
            lease = f"{log.folder}/cleaning.tmp"
            self.disk.open(lease, create=True).close()
            try:
                plan = plan_cleaning(log, found, now_ms=self.now, lease=lease, buffers=CleanerBuffers())
                result = clean(self.disk, plan)  # type: ignore[arg-type]
                if not install(self.disk, log, plan, result, now_ms=self.now):  # type: ignore[arg-type]
                    raise Broken(f"{name}: what was cleaned is not taken")
            finally:
                self.disk.unlink(lease)

        self.call(name, lambda log: run(), after)
        self.do(self.dir_of(name).write_cleaned_offsets)

    def swap_half(self, name: str) -> None:
        """Clean a log, and end the process when all that was cleaned has its second name."""
        said, log = self.said[name], self.log(name)
        said.becoming(replace(said.state, compacted=True))
        found = cleanable(log, last_stable_offset=log.last_stable_offset, now_ms=self.now)
        lease = f"{log.folder}/cleaning.tmp"
        self.disk.open(lease, create=True).close()
        plan = plan_cleaning(log, found, now_ms=self.now, lease=lease, buffers=CleanerBuffers())
        for group in clean(self.disk, plan).groups:
            for path in cleaned_files(log.folder, group):
                self.disk.rename(path + ".cleaned", path + ".swap")
        self.process_again()

    def checkpoint(self) -> None:
        """Store everything that a directory stores by the clock."""
        for each in self.dirs:
            for write in (each.write_recovery_points, each.write_start_offsets, each.write_cleaned_offsets):
                self.do(write)
            self.do(
                lambda each=each: each.write_high_watermarks(  # type: ignore[misc]
                    {key: (log, log.log_end_offset) for key, log in each.logs.items()}
                )
            )
        for said in self.said.values():
            said.stored_start = said.start

    def delete(self, name: str) -> None:
        """Delete a log as DeleteTopics does; its files go when the delay is over."""
        log_dir, key = self.dir_of(name), key_of(name)
        self.deleting.add(name)
        self.do(lambda: log_dir.delete_log(key, unique="x" * 32, now_ms=self.now, delay_ms=5))
        del self.said[name]
        self.deleting.discard(name)

    def remove_doomed(self) -> None:
        """Remove the folders of deleted logs."""
        self.now += 100
        for log_dir in self.dirs:
            for folder in log_dir.take_doomed(self.now):
                self.do(lambda folder=folder: delete_folder(self.disk, folder))  # type: ignore[misc]


def key_of(name: str) -> TopicPartition:
    """Return the partition of this name, such as `t-0`."""
    topic, _, index = name.rpartition("-")
    return TopicPartition(topic, int(index))


def extended(state: State, values: list[Any]) -> State:
    """Return a log with more records at its end."""
    more = {state.end + at: value for at, value in enumerate(values)}
    return State({**state.values, **more}, state.end + len(values), state.compacted)
