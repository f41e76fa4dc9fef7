"""What `ottla dev` runs: a broker in a process of its own, and the rest in this one, on one event loop.

The registry, Connect, SQL and the console share their imports and one Spark session, so that all of it takes the memory
of two processes and a JVM. Connect begins the session, in the background; SQL's queries and Connect's tasks run in it.
Where Spark is not installed, SQL runs its queries in threads of this process, and there is no Connect.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from ottla.base import OttlaError
from ottla.cli.dev.places import HOST, Places
from ottla.cli.local.serving import end_by_input

__all__ = ["Broker", "Told", "connect_properties", "running"]

log = logging.getLogger(__name__)

Told = Callable[[str, str], None]
"""Takes a service's name and what there is to say of it."""
BROKER_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 30.0
KEPT_SECONDS_MIN = 5.0
"""A broker that ends sooner than this after its start is not started again."""
DAEMON = "ottla.spark.shared_daemon"
"""The Python daemon of a session in which Connect's tasks and queries' hosts run."""
WELL_SAID = b"ready "


@asynccontextmanager
async def running(places: Places, folder: Path, tell: Told) -> AsyncIterator[asyncio.Future[str]]:
    """Run everything for as long as the block, and tell of each service when it answers.

    Yields what is done when the broker cannot be kept running, with what is to be said. Raises OttlaError where a service
    does not start; those that had started are stopped.
    """
    from ottla.background import awaited, end

    async with AsyncExitStack() as stack:
        broker = await stack.enter_async_context(_broker(places, folder))
        tell("broker", places.bootstrap)
        keeping = awaited(broker.keep(tell))
        stack.push_async_callback(end, keeping)
        await stack.enter_async_context(_registry(places))
        tell("registry", places.url("registry"))
        await stack.enter_async_context(_console(places, tell))
        with_connect = await stack.enter_async_context(_connect(places, tell))
        await stack.enter_async_context(_sql(places, folder, on_spark=with_connect))
        tell("sql", f"{places.url('sql')}   ottla sql {places.url('sql')}")
        yield keeping


class Broker:
    """A broker as a process, which ends with this one however that ends."""

    def __init__(self, places: Places, folder: Path) -> None:
        self._log = folder / "broker.log"
        self._log_from = 0
        """Where in the file what this start says begins."""
        self._process: asyncio.subprocess.Process | None = None
        self._ready_s = 0.0
        overrides = {
            "listeners": f"PLAINTEXT://{places.bootstrap}",
            "log.dirs": str(folder / "data"),
            "group.initial.rebalance.delay.ms": "0",  # nobody waits three seconds for a second member
            "offsets.topic.num.partitions": "4",
            "transaction.state.log.num.partitions": "4",
        }
        self._command = ["-m", "ottla.cli.main", "server", "start", "--ends-with-input", "--log-level", "warning"]
        for name, value in overrides.items():
            self._command += ["--override", f"{name}={value}"]

    async def start(self) -> None:
        """Start it, and return when it serves; raises OttlaError with what it has said where it does not."""
        with self._log.open("ab") as output:
            self._log_from = output.tell()
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, *self._command),
                stdin=asyncio.subprocess.PIPE,
                stdout=output,
                stderr=output,
                start_new_session=True,  # Ctrl+C is for this process, whose services leave the broker before it ends
            )
        try:
            await self._is_ready(self._process)
        except BaseException:
            await self.stop()
            raise
        self._ready_s = time.monotonic()

    async def stop(self) -> None:
        """Stop it, as a shutdown does."""
        if self._process is not None:
            await end_by_input(self._process, seconds=STOP_SECONDS_MAX)

    async def keep(self, tell: Told) -> str:
        """Start it again where it ends by itself, killed by hand or for want of memory; the services wait for it.

        Returns what is to be said where it cannot be kept: it does not start, or has just been started.
        """
        while True:
            assert self._process is not None
            code = await self._process.wait()
            ended = f"the broker has ended with exit code {code}"
            if time.monotonic() - self._ready_s < KEPT_SECONDS_MIN:
                return f"{ended}: {self._last_line()}"
            tell("broker", f"{ended.removeprefix('the broker ')}, and is started again")
            try:
                await self.start()
            except OttlaError as error:
                return str(error)

    async def _is_ready(self, process: asyncio.subprocess.Process) -> None:
        """Return when it serves; raises OttlaError with what it has said where it does not."""
        try:
            async with asyncio.timeout(BROKER_SECONDS_MAX):
                while not any(line.startswith(WELL_SAID) for line in self._said()):
                    if process.returncode is not None:
                        raise OttlaError(f"the broker did not start: {self._last_line()}")
                    await asyncio.sleep(0.02)
        except TimeoutError:
            raise OttlaError(f"the broker is not ready after {BROKER_SECONDS_MAX:.0f} s: {self._last_line()}") from None

    def _said(self) -> list[bytes]:
        with self._log.open("rb") as log:
            log.seek(self._log_from)
            return log.read().splitlines()

    def _last_line(self) -> str:
        lines = [each.decode(errors="replace") for each in self._said() if each.strip()]
        return lines[-1] if lines else "it has said nothing"


@asynccontextmanager
async def _broker(places: Places, folder: Path) -> AsyncIterator[Broker]:
    broker = Broker(places, folder)
    await broker.start()
    try:
        yield broker
    finally:
        await broker.stop()


@asynccontextmanager
async def _registry(places: Places) -> AsyncIterator[None]:
    from ottla.registry import Instance, registry_settings

    given = {
        "kafkastore.bootstrap.servers": places.bootstrap,
        "kafkastore.topic.replication.factor": "1",
        "listeners": places.url("registry"),
        "host.name": HOST,
    }
    instance = Instance(registry_settings(given, {}))
    await _started(instance.start(), "the registry")
    try:
        yield
    finally:
        await instance.stop()


@asynccontextmanager
async def _console(places: Places, tell: Told) -> AsyncIterator[None]:
    from ottla.console import ClusterSettings, Console, console_settings

    given = {
        "ottla.console.listeners": f"{HOST}:{places.console}",
        "ottla.console.registry.url": places.url("registry"),
        "ottla.console.connect.urls": f"connect={places.url('connect')}",
        "ottla.console.sql.url": places.url("sql"),
    }
    clusters = (ClusterSettings("dev", places.bootstrap, {}),)
    console = Console(console_settings(given, clusters), new_link=lambda link: tell("console", link))
    await _started(console.start(), "the console")
    try:
        yield
    finally:
        await console.stop()


def connect_properties(places: Places) -> dict[str, str]:
    """Return the properties of the worker: distributed, so that its connectors outlive it in topics."""
    stores = {f"{each}.storage.replication.factor": "1" for each in ("offset", "config", "status")}
    return {
        "bootstrap.servers": places.bootstrap,
        "group.id": "connect",
        "listeners": places.url("connect"),
        "key.converter": "org.apache.kafka.connect.storage.StringConverter",
        "value.converter": "io.confluent.connect.avro.AvroConverter",
        "value.converter.schema.registry.url": places.url("registry"),
        "config.storage.topic": "connect-configs",
        "offset.storage.topic": "connect-offsets",
        "offset.storage.partitions": "4",
        "status.storage.topic": "connect-status",
        "status.storage.partitions": "2",
        "spark.python.daemon.module": DAEMON,
        **stores,
    }


@asynccontextmanager
async def _connect(places: Places, tell: Told) -> AsyncIterator[bool]:
    """Run a worker; yields False, and says why, where Spark is not there."""
    from ottla.connect import WorkerConfig, WorkerMode
    from ottla.spark import ConnectWorker, distributed_herder, spark_missing

    if missing := spark_missing():
        tell("connect", f"not started: {missing}")
        yield False
        return
    worker = ConnectWorker(WorkerConfig.load(connect_properties(places), WorkerMode.DISTRIBUTED), distributed_herder)
    try:
        await _started(worker.start(), "Connect")
        tell("connect", places.url("connect"))
        yield True
    finally:
        await worker.close()


@asynccontextmanager
async def _sql(places: Places, folder: Path, *, on_spark: bool) -> AsyncIterator[None]:
    from ottla.sql_server import Instance, server_settings

    given: Mapping[str, str] = {
        "bootstrap.servers": places.bootstrap,
        "listeners": places.url("sql"),
        "ksql.schema.registry.url": places.url("registry"),
        "ksql.connect.url": places.url("connect"),
        "ksql.streams.state.dir": str(folder / "state"),
        "ottla.sql.engine": "spark" if on_spark else "python",
    }
    instance = Instance(server_settings(given, {}))
    await _started(instance.start(), "the SQL server")
    try:
        yield
    finally:
        await instance.stop()


async def _started(start: Awaitable[None], name: str) -> None:
    """Start a service; raises OttlaError with its name for an address that is taken, and for a JVM that does not start."""
    try:
        await start
    except OSError as error:
        raise OttlaError(f"{name} {_fault(error)}: {error.strerror or error}") from error
    except OttlaError:
        raise
    except Exception as error:  # Spark's errors have no base that is there without Spark
        log.info("%s does not start", name, exc_info=error)
        why = str(error).strip() or type(error).__name__
        raise OttlaError(f"{name} does not start: {why} (dev.log has more, and `--folder` keeps it)") from error


def _fault(error: OSError) -> str:
    return "cannot listen" if error.errno in (errno.EADDRINUSE, errno.EADDRNOTAVAIL, errno.EACCES) else "does not start"
