"""A rolling restart under the load of four client libraries: their own retries hide it, and nobody waits for long."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from random import Random

from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

from tests import peer
from tests.chaos.faults import rolling_restart
from tests.chaos.history import Verdict, longest_stall
from tests.chaos.libraries import LIBRARIES, Heard, libraries
from tests.chaos.loads import PARTITIONS, Ledger, Load, running
from tests.chaos.rounds import Round, await_flow, settle, stall_since
from tests.chaos.world import World, until

__all__ = ["run_rolling"]

FLOW_SECONDS_MAX = 60.0
READ_SECONDS_MAX = 60.0
STALL_SECONDS_GOAL = 5.0


def run_rolling(world: World, name: str, say: Callable[[str], None]) -> Round:
    """Restart every node in turn while librdkafka and the other libraries write and read; return what they noticed."""
    found, ledger = Round(faults=["rolling restart, four libraries"]), Ledger()
    load = Load(world.bootstrap, f"plain-{name}", f"txn-{name}", f"group-{name}", ledger, threading.Event())
    topics = {each: f"{each}-{name}" for each in LIBRARIES if each != "java" or peer.missing() is None}
    heard: dict[str, Heard] = {}
    try:
        world.create(load.plain, load.transactional, *topics.values())
        with running(load), libraries(world.bootstrap, topics) as heard:
            await_flow(ledger)
            _await_libraries(heard)
            begun = time.monotonic()
            rolling_restart(world, load.plain, Random(0), say)
            await_flow(ledger)
            _await_libraries(heard)
            found.stalls["librdkafka"] = stall_since(ledger, begun)
            for library, each in heard.items():
                found.stalls[library] = _stall(each, begun)
            world.await_full([load.plain, load.transactional])
        settle(world, load, found)
        for library, topic in topics.items():
            found.verdict.merge(_check(world.bootstrap, topic, library, heard[library]))
    except TimeoutError as error:
        found.verdict.add("not back", str(error))
    for each in (*ledger.errors, *(f"{library}: {what}" for library, one in heard.items() for what in one.errors)):
        found.verdict.add("error", each)
    found.acknowledged = ledger.acknowledged() + sum(len(each.acknowledged) for each in heard.values())
    found.read += sum(len(each.read) for each in heard.values())
    found.stall_seconds = found.stalls[found.faults[0]] = max(found.stalls.values(), default=0.0)
    if found.stall_seconds > STALL_SECONDS_GOAL:
        say(f"a stall of {found.stall_seconds:.1f} s is longer than the goal, {STALL_SECONDS_GOAL:.0f} s")
    return found


def _await_libraries(heard: dict[str, Heard]) -> None:
    """Return when each library has written something since now, and read something at all."""
    since = time.monotonic()

    def waiting() -> list[str]:
        found = []
        for name, each in heard.items():
            with each.lock:
                newest = max((times[-1] for times in each.acknowledged_at.values()), default=0.0)
                if newest <= since or not each.read:
                    found.append(name)
        return found

    if not until(lambda: not waiting(), FLOW_SECONDS_MAX):
        raise TimeoutError(f"{waiting()} did not write or read for {FLOW_SECONDS_MAX:.0f} s")


def _stall(heard: Heard, begun: float) -> float:
    """Return the longest time without any acknowledgement: some libraries keep to one partition for a while."""
    with heard.lock:
        times = sorted(at for found in heard.acknowledged_at.values() for at in found if at >= begun)
    return longest_stall({0: [begun, *times]}, until=times[-1] if times else begun)


def _check(bootstrap: str, topic: str, library: str, heard: Heard) -> Verdict:
    """Return what differs between what a library was told and what its topic holds."""
    verdict = Verdict()
    there = _content(bootstrap, topic)
    for (partition, offset), number in heard.acknowledged.items():
        if there.get((partition, offset)) != number:
            found = there.get((partition, offset))
            verdict.add("lost", f"{library}: {number} at offset {offset} of partition {partition}; there is {found}")
    for number, times in Counter(there.values()).items():
        if times > 1:
            verdict.add("duplicated", f"{library}: {number} is there {times} times")
    if not heard.is_caught_up():
        missing = sorted(heard.acknowledged.keys() - heard.read)
        verdict.add("not consumed", f"{library}: {len(missing)} records, such as {missing[:3]}")
    return verdict


def _content(bootstrap: str, topic: str) -> dict[tuple[int, int], int]:
    consumer = Consumer({"bootstrap.servers": bootstrap, "group.id": "chaos-reader", "enable.auto.commit": False})
    found: dict[tuple[int, int], int] = {}
    deadline = time.monotonic() + READ_SECONDS_MAX
    try:
        partitions = [TopicPartition(topic, each, OFFSET_BEGINNING) for each in range(PARTITIONS)]
        ends = {each.partition: consumer.get_watermark_offsets(each, timeout=30)[1] for each in partitions}
        consumer.assign(partitions)
        while any(each.offset < ends[each.partition] for each in consumer.position(partitions) if ends[each.partition]):
            if time.monotonic() > deadline:
                raise TimeoutError(f"{topic} could not be read to its end")
            for message in consumer.consume(5000, timeout=0.5):
                if message.error() is None:
                    found[message.partition(), message.offset()] = int(message.value())
    finally:
        consumer.close()
    return found
