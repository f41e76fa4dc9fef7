"""What logs and log directories live through, call by call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ottla.wire import Record, build_batch
from tests.faults.said import ABORTED, State
from tests.faults.stage import AGAIN_ID, CONFIG, Stage, extended

__all__ = ["APPENDING", "OF_DIRECTORIES", "REMOVING", "STORIES", "Story"]

WIDE = replace(CONFIG, segment_bytes=100_000)
COMPACT = replace(
    CONFIG, cleanup_policy=("compact",), delete_retention_ms=1000, min_cleanable_dirty_ratio=0.0, segment_bytes=500
)


@dataclass(frozen=True)
class Story:
    """What is done before calls are counted, and what after."""

    name: str
    prepare: Callable[[Stage], None]
    play: Callable[[Stage], None]
    paths: tuple[str, ...] = ("data",)


APPENDING: dict[str, Story] = {}
REMOVING: dict[str, Story] = {}
OF_DIRECTORIES: dict[str, Story] = {}


def story(
    subject: dict[str, Story], name: str, prepare: Callable[[Stage], None], paths: tuple[str, ...] = ("data",)
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    """Register a story."""

    def register(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        subject[name] = Story(name, prepare, play, paths)
        return play

    return register


# -- what there is before


def nothing(stage: Stage) -> None:
    """An empty host."""


def empty(stage: Stage) -> None:
    """A directory with two logs, one of which has some records: it must not suffer from what befalls the other."""
    stage.start()
    stage.create("u-0")
    stage.append("u-0", 2)
    stage.create("t-0")


def some(stage: Stage) -> None:
    """A log with three segments, the first of which is durable, and producers."""
    empty(stage)
    stage.append("t-0", 2, producer=7)
    stage.append("t-0", 3)
    stage.roll("t-0")
    stage.flush("t-0")
    stage.checkpoint()
    stage.append("t-0", 2, producer=7)
    stage.epoch = 1
    stage.append("t-0", 2, producer=8)
    stage.roll("t-0")
    stage.append("t-0", 2)
    stage.append("t-0", 1, producer=8)


def transactions(stage: Stage) -> None:
    """A log with an aborted transaction in a sealed segment, another in the active one, and one that is open."""
    empty(stage)
    stage.append("t-0", 2, producer=7, transactional=True)
    stage.append("t-0", 1)
    stage.end_transaction("t-0", 7, commit=False)
    stage.roll("t-0")
    stage.append("t-0", 1, producer=8, transactional=True)
    stage.end_transaction("t-0", 8, commit=False)
    stage.append("t-0", 2, producer=9, transactional=True)


def keyed(stage: Stage) -> None:
    """A log to compact: three sealed segments with keys that come again."""
    stage.start()
    stage.create("u-0")
    stage.append("u-0", 2)
    stage.create("t-0", COMPACT)
    for _ in range(3):
        for key in (b"a", b"b", b"c"):
            stage.append("t-0", 1, key=key)
        stage.append("t-0", 1, key=ABORTED, producer=7, transactional=True)
        stage.end_transaction("t-0", 7, commit=False)
        stage.roll("t-0")


def wide(stage: Stage) -> None:
    """A log whose segment has room for all that comes, and a producer."""
    stage.start()
    stage.create("u-0")
    stage.append("u-0", 2)
    stage.create("t-0", WIDE)
    stage.append("t-0", 2, producer=7)


def busy_index(stage: Stage) -> None:
    """A log whose index has 62 entries in memory: the second append from here on writes them."""
    stage.start()
    stage.create("u-0")
    stage.append("u-0", 2)
    stage.create("t-0", WIDE)
    for _ in range(63):
        stage.append("t-0", 1)


def lead(stage: Stage, state: State, counts: list[int]) -> tuple[bytes, list[State]]:
    """Return batches of these sizes as a leader sends them, two in an epoch, and what the log becomes with each."""
    data, states = b"", []
    for at, count in enumerate(counts):
        stage.epoch += at % 2 == 0
        values = []
        for _ in range(count):
            stage.count += 1
            values.append(b"r=%d" % stage.count)
        records = [Record(state.end + at, stage.now, b"r", value, ()) for at, value in enumerate(values)]  # type: ignore[arg-type]
        data += bytes(build_batch(records, base_offset=state.end, leader_epoch=stage.epoch))
        state = extended(state, values)
        states.append(state)
    return data, states


# -- appending


@story(APPENDING, "produce", empty)
def _produce(stage: Stage) -> None:
    stage.append("t-0", 2)
    stage.append("t-0", 1, producer=7)
    stage.append("t-0", 2, producer=7)


@story(APPENDING, "produce-after-some", some)
def _produce_after_some(stage: Stage) -> None:
    stage.append("t-0", 2)
    stage.epoch = 2
    stage.append("t-0", 2, producer=7)


@story(APPENDING, "produce-index", busy_index)
def _produce_index(stage: Stage) -> None:
    for _ in range(4):
        stage.append("t-0", 1, producer=7)


@story(APPENDING, "produce-joined", wide)
def _produce_joined(stage: Stage) -> None:
    stage.append_joined("t-0", [2, 1, 3])
    stage.epoch = 2
    stage.append_joined("t-0", [1, 2], producer=7)
    stage.append("t-0", 1, producer=7)


@story(APPENDING, "produce-joined-index", busy_index)
def _produce_joined_index(stage: Stage) -> None:
    stage.append("t-0", 1, producer=7)
    stage.append_joined("t-0", [1, 1, 1, 1, 1], producer=7)


@story(APPENDING, "roll", some)
def _roll(stage: Stage) -> None:
    stage.roll("t-0")
    stage.append("t-0", 2, producer=7)
    for _ in range(6):  # and by size
        stage.append("t-0", 2, producer=7)


@story(APPENDING, "roll-refused", some)
def _roll_refused(stage: Stage) -> None:
    stage.roll_once("t-0")
    stage.append("t-0", 1)
    stage.append("t-0", 1, producer=7)
    stage.roll_once("t-0")
    stage.append("t-0", 1)


@story(APPENDING, "replicate", some)
def _replicate(stage: Stage) -> None:
    for _ in range(2):
        stage.replicate("t-0", *lead(stage, stage.said["t-0"].state, [1, 3, 2, 3]))


@story(APPENDING, "replicate-index", busy_index)
def _replicate_index(stage: Stage) -> None:
    stage.replicate("t-0", *lead(stage, stage.said["t-0"].state, [1, 1, 1, 1]))


@story(APPENDING, "flush", some)
def _flush(stage: Stage) -> None:
    stage.flush("t-0")
    stage.append("t-0", 1)
    stage.epoch = 3
    stage.append("t-0", 1)
    stage.flush("t-0")
    stage.flush("u-0")


# -- transactions


@story(APPENDING, "abort", transactions)
def _abort(stage: Stage) -> None:
    stage.end_transaction("t-0", 9, commit=False)
    stage.append("t-0", 1, producer=9, transactional=True)
    stage.roll("t-0")
    stage.end_transaction("t-0", 9, commit=False)
    stage.append("t-0", 1, producer=8, transactional=True)
    stage.end_transaction("t-0", 8, commit=True)


@story(APPENDING, "truncate-transactions", transactions)
def _truncate_transactions(stage: Stage) -> None:
    stage.end_transaction("t-0", 9, commit=False)
    stage.truncate("t-0", 8)
    stage.end_transaction("t-0", 9, commit=False)
    stage.truncate("t-0", 3)
    stage.append("t-0", 1)


# -- removing


@story(REMOVING, "truncate", some)
def _truncate(stage: Stage) -> None:
    stage.truncate("t-0", 9)
    stage.append("t-0", 1)
    stage.truncate("t-0", 4, end=2)  # a batch holds it
    stage.append("t-0", 2, producer=7)
    stage.roll("t-0")
    stage.append("t-0", 1)


@story(REMOVING, "truncate-to-base", some)
def _truncate_to_base(stage: Stage) -> None:
    stage.truncate("t-0", 5)
    stage.append("t-0", 1)
    stage.flush("t-0")


@story(REMOVING, "restart", some)
def _restart(stage: Stage) -> None:
    stage.restart("t-0", 40)
    stage.replicate("t-0", *lead(stage, stage.said["t-0"].state, [2, 2]))


@story(REMOVING, "delete-records", some)
def _delete_records(stage: Stage) -> None:
    stage.delete_before("t-0", 2)
    stage.delete_before("t-0", 7)
    stage.housekeep("t-0", wait_ms=10)
    stage.append("t-0", 1)
    stage.delete_before("t-0", stage.said["t-0"].state.end)
    stage.append("t-0", 1)
    stage.housekeep("t-0", wait_ms=10)


@story(REMOVING, "retain", some)
def _retain(stage: Stage) -> None:
    stage.log("t-0").config = replace(CONFIG, retention_bytes=250)
    stage.housekeep("t-0")
    stage.append("t-0", 1)
    stage.housekeep("t-0", wait_ms=10)
    stage.checkpoint()


@story(REMOVING, "retain-all", some)
def _retain_all(stage: Stage) -> None:
    stage.log("t-0").config = replace(CONFIG, retention_ms=1000)
    stage.housekeep("t-0", wait_ms=100_000)
    stage.append("t-0", 1)
    stage.housekeep("t-0", wait_ms=10)
    stage.checkpoint()


@story(REMOVING, "compact", keyed)
def _compact(stage: Stage) -> None:
    stage.compact("t-0")
    stage.append("t-0", 1, key=b"a")
    stage.housekeep("t-0", wait_ms=10)
    stage.checkpoint()


# -- the directory


@story(OF_DIRECTORIES, "checkpoint", some)
def _checkpoint(stage: Stage) -> None:
    stage.checkpoint()
    stage.flush("t-0")
    stage.delete_before("t-0", 2)
    stage.checkpoint()


@story(OF_DIRECTORIES, "create", nothing)
def _create(stage: Stage) -> None:
    stage.start_again()
    stage.create("t-0")
    stage.append("t-0", 1)
    stage.create("u-0")
    stage.flush("t-0")


@story(OF_DIRECTORIES, "delete", some)
def _delete(stage: Stage) -> None:
    stage.delete("t-0")
    stage.append("u-0", 1)
    stage.checkpoint()
    stage.remove_doomed()


@story(OF_DIRECTORIES, "recreate", some)
def _recreate(stage: Stage) -> None:
    stage.flush("t-0")
    stage.delete_before("t-0", 7)
    stage.checkpoint()
    stage.delete("t-0")
    stage.ids["t"] = AGAIN_ID
    stage.create("t-0")
    for _ in range(4):
        stage.append("t-0", 3)
    stage.remove_doomed()


@story(OF_DIRECTORIES, "recreate-at-start", some)
def _recreate_at_start(stage: Stage) -> None:
    stage.flush("t-0")
    stage.checkpoint()
    stage.process_again()
    stage.ids["t"] = AGAIN_ID  # deleted and made again while it was down
    del stage.said["t-0"]
    stage.start_again()
    stage.create("t-0")
    for _ in range(3):
        stage.append("t-0", 2)


@story(OF_DIRECTORIES, "start-clean", some)
def _start_clean(stage: Stage) -> None:
    stage.stop()
    stage.start_again()
    stage.append("t-0", 1)


@story(OF_DIRECTORIES, "start-unclean", transactions)
def _start_unclean(stage: Stage) -> None:
    stage.process_again()
    stage.start_again()
    stage.append("t-0", 1)
    stage.append("u-0", 1)


@story(OF_DIRECTORIES, "start-torn", some)
def _start_torn(stage: Stage) -> None:
    newest = max(path for path, _ in stage.storage.walk("data/t-0") if path.endswith(".log"))
    stage.storage.inode(newest).data += b"\x00\x01 torn"
    stage.process_again()
    stage.start_again()
    stage.append("t-0", 1)


def half_swapped(stage: Stage) -> None:
    """A compaction of which everything had its second name when the process ended."""
    keyed(stage)
    stage.flush("t-0")
    stage.swap_half("t-0")


@story(OF_DIRECTORIES, "start-swap", half_swapped)
def _start_swap(stage: Stage) -> None:
    """A start completes it."""
    stage.start_again()
    stage.append("t-0", 1, key=b"a")


STORIES = APPENDING | REMOVING | OF_DIRECTORIES
