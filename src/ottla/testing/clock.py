"""`KafkaClock`: a broker in the test's own process, under a clock that the test turns.

It is the broker as it is, on a real port and a real disk, in a thread of its own; only its time is the test's. So what takes
Kafka days (retention, offsets that expire) or minutes (sessions, transactions) is tested in milliseconds, with any client.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from ottla.background import supervise_thread
from ottla.base import OttlaError
from ottla.testing.brokers import broker_folder, overrides_of
from ottla.testing.kafka import Kafka
from ottla.testing.members import ListeningNetwork, Members
from ottla.testing.processes import StartError
from ottla.testing.turned_loop import TurnedClock, TurnedLoop

if TYPE_CHECKING:
    from ottla.broker import Node
    from ottla.config import BrokerConfig

__all__ = ["CLOCK_DEFAULTS", "KafkaClock", "running_clock"]

T = TypeVar("T")
FOREVER_MS = str(2**31 - 1)
CLOCK_DEFAULTS: Mapping[str, str] = {
    "log.message.timestamp.type": "LogAppendTime",  # clients stamp records by their own clocks, which nobody turns
    "connections.max.idle.ms": FOREVER_MS,
    "broker.session.timeout.ms": FOREVER_MS,  # its own heartbeats may come late, where time goes in steps
    "log.retention.check.interval.ms": "300000",
    "group.consumer.min.heartbeat.interval.ms": "1",
    "group.consumer.heartbeat.interval.ms": "100",
}
"""What a broker under a clock has for granted beside what every broker of tests has."""
CONSUMER_SESSION = "group.consumer.session.timeout.ms"
CONSUMER_SESSION_MS = 45_000
START_SECONDS = 60.0
TURN_SECONDS = 120.0
"""How long, in real time, a turn may take."""
STEPS = 200
"""Into how many steps a turn is divided at most, where nothing is said."""
PATIENCE_SECONDS = 10.0
THREADS = 4
LOG_LINES_MAX = 5_000


class KafkaClock:
    """A broker under a clock. Time flows as the machine's does, and jumps where the test turns it."""

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, object],
        *,
        heartbeat_seconds: float = PATIENCE_SECONDS,
        ready_seconds: float = START_SECONDS,
    ) -> None:
        """Start it; raises StartError where it does not get ready.

        `heartbeat_seconds` is how long, in real time, a living member's heartbeat is waited for before it counts as gone.
        """
        from ottla.config import BrokerConfig

        overrides = overrides_of(
            {**CLOCK_DEFAULTS, **settings}, data=folder / "data", listener="PLAINTEXT://127.0.0.1:0"
        )
        config = BrokerConfig.load(environment={}, overrides=overrides)
        session_ms = int(str(settings.get(CONSUMER_SESSION, CONSUMER_SESSION_MS)))
        self._members = Members(consumer_session_ms=session_ms, patience_s=heartbeat_seconds)
        self._clock = TurnedClock(self._members)
        self._members.time = self._clock.time
        self._logged = _Lines()
        self._up: concurrent.futures.Future[str] = concurrent.futures.Future()
        self._stopping: Callable[[], object] = lambda: None
        logging.getLogger("ottla").addHandler(self._logged)
        self._thread = supervise_thread(
            lambda: self._run(config), name="a broker under a clock", serves="a test", failed=self._failed
        )
        try:
            address = self._up.result(ready_seconds)
        except BaseException as error:  # an interrupt too: nobody else has it to end it
            self._end()
            if not isinstance(error, OttlaError | OSError):  # a TimeoutError is one
                raise
            raise StartError(f"the broker under a clock is not ready: {error or 'it took too long'}") from error
        self.kafka = Kafka(address, log_lines=lambda: self._logged.lines, log_dropped=lambda: self._logged.dropped)
        """The broker for the test's own hand: topics, records, groups."""
        self.bootstrap_servers = address

    # -- time

    def now_ms(self) -> int:
        """Return the broker's time, in milliseconds since 1970."""
        return self._in_loop(self._clock.now_ms)

    def advance(
        self,
        seconds: float = 0.0,
        *,
        minutes: float = 0.0,
        hours: float = 0.0,
        days: float = 0.0,
        step: float | None = None,
        wait_for_members: bool = True,
    ) -> None:
        """Turn the clock, and return when everything that was due by then has happened.

        What is due happens at most `step` seconds late in between (a 200th of the whole where nothing is said), and never
        after the turn's end. Time waits for the heartbeats of members whose clients live, and all of them have been heard
        when it returns. Without `wait_for_members` it passes them by at once, and sessions that end meanwhile end.

        Raises ValueError for a turn backwards, and TimeoutError where it takes longer than two minutes of real time.
        """
        whole = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds()
        if whole < 0:
            raise ValueError(f"the clock is not turned backwards: {whole:g} s")
        done: concurrent.futures.Future[None] = concurrent.futures.Future()
        own_step = step if step is not None else whole / STEPS if wait_for_members else whole
        self._in_loop(lambda: self._clock.turn(whole, step=own_step, waits_for_members=wait_for_members, done=done))
        try:
            done.result(TURN_SECONDS)
        except TimeoutError:
            self._in_loop(self._clock.give_up)
            raise TimeoutError(f"the clock did not come {whole:g} s further within {TURN_SECONDS:g} s") from None

    def silence(self, client_id: str) -> None:
        """Have the broker hear nothing more from a client of this id, as if its network were cut; it is not waited for."""
        self._in_loop(lambda: self._members.silence(client_id))

    def hear(self, client_id: str) -> None:
        """Have the broker hear a silenced client again, what it has sent meanwhile too."""
        self._in_loop(lambda: self._members.hear(client_id))

    def close(self) -> None:
        """Stop the broker."""
        self.kafka.close()
        self._end()

    # -- the broker's thread

    def _in_loop(self, call: Callable[[], T]) -> T:
        """Return what a call returns in the broker's thread; raises what it raises, RuntimeError where that has ended."""
        told: concurrent.futures.Future[T] = concurrent.futures.Future()

        def run() -> None:
            try:
                told.set_result(call())
            except BaseException as error:  # it is raised where it is waited for
                told.set_exception(error)

        self._loop.call_soon_threadsafe(run)
        return told.result(TURN_SECONDS)

    def _run(self, config: BrokerConfig) -> None:
        with asyncio.Runner(loop_factory=lambda: TurnedLoop(self._clock)) as runner:
            runner.run(self._serve(config))

    async def _serve(self, config: BrokerConfig) -> None:
        from ottla.broker import Node
        from ottla.log import OsDisk

        self._loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        self._stopping = lambda: self._loop.call_soon_threadsafe(stopping.set)
        offload = _Threads()
        node = Node(config, OsDisk(), ListeningNetwork(self._members), self._clock, random.SystemRandom(), offload)
        try:
            await node.start()
            self._up.set_result(_address(node))
            await stopping.wait()
            self._clock.give_up()
            await node.stop()
        finally:
            offload.close()

    def _failed(self, error: BaseException) -> None:
        if not self._up.done():
            self._up.set_exception(error)

    def _end(self) -> None:
        self._stopping()
        self._thread.join(START_SECONDS)
        logging.getLogger("ottla").removeHandler(self._logged)


def _address(node: Node) -> str:
    first = node.listeners[0]
    return f"{first.host}:{first.port}"


class _Threads:
    """`Offload` on threads alone: a process would cost a test its start, and its time nobody would wait for."""

    def __init__(self) -> None:
        self._executor = concurrent.futures.ThreadPoolExecutor(THREADS, thread_name_prefix="ottla-clock")

    async def thread(self, call: Callable[..., T], /, *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._executor, call, *args)

    async def process(self, call: Callable[..., T], /, *args: object) -> T:
        return await self.thread(call, *args)

    async def background(self, call: Callable[..., T], /, *args: object) -> T:
        return await self.thread(call, *args)

    def close(self) -> None:
        self._executor.shutdown(wait=True)


class _Lines(logging.Handler):
    """Keeps what the broker logs, as lines."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.dropped = 0
        """Lines before those."""
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s (%(name)s)"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))
        self.dropped += max(len(self.lines) - LOG_LINES_MAX, 0)
        del self.lines[:-LOG_LINES_MAX]


@contextmanager
def running_clock(
    settings: Mapping[str, object] | None = None,
    *,
    folder: Path | None = None,
    heartbeat_seconds: float = PATIENCE_SECONDS,
    ready_seconds: float = START_SECONDS,
) -> Iterator[KafkaClock]:
    """Run a broker under a clock until the block ends; its data is gone then, unless the folder was given."""
    with broker_folder(folder) as data:
        clock = KafkaClock(data, settings or {}, heartbeat_seconds=heartbeat_seconds, ready_seconds=ready_seconds)
        try:
            yield clock
        finally:
            clock.close()
