"""A process that searches for a console: told of searches on standard input, it answers with frames on standard output.

It ends with its input, so with the console. `scan_processes` alone starts it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import sys
from collections.abc import AsyncGenerator, Hashable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from ottla.background import count_failure, end, supervise
from ottla.base import KafkaError, OttlaError
from ottla.console.clusters import Cluster
from ottla.console.records.file_decoders import values_of
from ottla.console.records.requests import scan_request
from ottla.console.records.scan_processes import HEAD_BYTES, ScanJob
from ottla.console.records.scans import Frame, scan
from ottla.console.records.tails import Tail, Tails
from ottla.http import HttpError

if TYPE_CHECKING:
    from ottla.console.records.registry_values import RegistryValues

__all__: list[str] = []

log = logging.getLogger(__name__)

REGISTRIES_MAX = 8


class _Searches:
    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self._frames: dict[int, AsyncGenerator[Frame, None]] = {}
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._registries: dict[tuple[tuple[str, str], ...], RegistryValues] = {}
        self._closing: set[asyncio.Task[None]] = set()
        self._tails = Tails()

    def take(self, kind: str, number: int, job: ScanJob | None = None) -> None:
        if kind == "open":
            assert job is not None
            try:
                self._frames[number] = self._opened(job)
            except OttlaError as error:
                self._frames[number] = _failing(error)
        elif kind == "next" and number in self._frames:
            self._tasks[number] = supervise(self._next(number), name="search", serves="a search")
        elif kind == "close":
            closing = supervise(self._close(number), name="end a search", serves="a search")
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)

    def _opened(self, job: ScanJob) -> AsyncGenerator[Frame, None]:
        request, _ = scan_request(job.body)
        if job.positions is not None:
            request = replace(request, positions=job.positions)
        cluster = Cluster(job.settings, job.credentials)
        values = values_of(job.decoders, self._registry(job.registry), request.topic)
        key = _key(job), request.topic, request.isolation

        def make() -> Tail:
            return Tail(Cluster(job.settings, job.credentials).client, request.topic, request.isolation, values)

        return scan(cluster.client, request, values, job.masks, lambda: self._tails.followed(key, make))

    def _registry(self, properties: Mapping[str, str] | None) -> RegistryValues | None:
        if properties is None:
            return None
        from ottla.console.records.registry_values import RegistryValues

        key = tuple(sorted(properties.items()))
        if key not in self._registries:
            while len(self._registries) >= REGISTRIES_MAX:
                self._registries.pop(next(iter(self._registries)))
            self._registries[key] = RegistryValues(properties)
        return self._registries[key]

    async def _next(self, number: int) -> None:
        try:
            frame = await anext(self._frames[number], None)
        except HttpError as error:
            self._say(number, "error", "http", error.status, error.message)
        except KafkaError as error:
            self._say(number, "error", "kafka", int(error.code), str(error))
        except OttlaError as error:
            self._say(number, "error", "ottla", 0, str(error))
        except Exception:  # our own mistake: it costs this search, and the log says what it was
            log.exception("a search failed")
            count_failure("the console's searches")
            self._say(number, "error", "ottla", 0, "The console has failed to search; its log says why.")
        else:
            self._say(number, *(("end",) if frame is None else ("frame", frame)))

    async def _close(self, number: int) -> None:
        task = self._tasks.pop(number, None)
        if task is not None and not task.done():
            await end(task)
        frames = self._frames.pop(number, None)
        if frames is not None:
            await frames.aclose()

    def _say(self, *message: object) -> None:
        data = pickle.dumps(message)
        self._out.write(len(data).to_bytes(HEAD_BYTES, "big") + data)
        self._out.flush()


def _key(job: ScanJob) -> Hashable:
    """What searches have in common that read the same as the same user."""
    properties = tuple(sorted(job.settings.properties.items()))
    registry = None if job.registry is None else tuple(sorted(job.registry.items()))
    return job.settings.name, job.settings.bootstrap, properties, registry, job.decoders, pickle.dumps(job.credentials)


async def _failing(error: OttlaError) -> AsyncGenerator[Frame, None]:
    raise error
    yield {}  # what makes it a generator


async def _main(out: BinaryIO) -> None:
    reader = asyncio.StreamReader(limit=1 << 30)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    searches = _Searches(out)
    while True:
        try:
            size = int.from_bytes(await reader.readexactly(HEAD_BYTES), "big")
            message = pickle.loads(await reader.readexactly(size))
        except asyncio.IncompleteReadError:
            return
        searches.take(*message)


if __name__ == "__main__":
    frames_out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever prints does so on standard error: standard output has frames alone
    asyncio.run(_main(frames_out))
