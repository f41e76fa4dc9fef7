"""`Examiner`: asks the examining processes, ends one that takes too long, and remembers what it has been told."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from ottla.registry.core import RegistryError
from ottla.registry.core.errors import invalid_schema, store_failed, timed_out
from ottla.registry.examining.questions import Text, canonical_question
from ottla.schemas import SchemaType

__all__ = ["Examiner"]

log = logging.getLogger(__name__)
SECONDS_MAX = 15.0
"""How long one question may take; the processor time of Protobuf's compiler is bounded below that."""
WAITING_MAX = 200
SMALL_BYTES = 32 << 10
ANSWER_BYTES_MAX = 64 << 20
KNOWN_MAX = 20_000
KNOWN_BYTES_MAX = 64 << 10
"""Of a question that is worth being remembered."""
KNOWN_BYTES_SUM_MAX = 32 << 20
"""Of the questions that are remembered, all together; an answer is seldom longer than its question."""

WARMING = Text(SchemaType.AVRO, '"string"')


class Examiner:
    """Answers questions of `questions`; small ones do not wait behind large ones."""

    def __init__(self, *, seconds_max: float = SECONDS_MAX) -> None:
        self._small, self._large = _Lane(seconds_max), _Lane(seconds_max)
        self._known: OrderedDict[bytes, Any] = OrderedDict()
        self._known_bytes = 0

    async def warm(self) -> None:
        """Start the process for small questions now, so that the first of them does not wait for that.

        Fails silently: a question that needs the process says what is wrong.
        """
        with suppress(RegistryError):
            await self._small.ask(json.dumps(canonical_question(WARMING, normalize=False)).encode())

    async def ask(self, question: Mapping[str, Any]) -> Any:
        """Return the answer; raises RegistryError 42201 for what is no schema, 50002 where it takes too long."""
        body = json.dumps(question).encode()
        if body in self._known:
            self._known.move_to_end(body)
            return self._known[body]
        lane = self._small if len(body) <= SMALL_BYTES else self._large
        found = await lane.ask(body)
        if "invalid" in found:
            raise invalid_schema(found["invalid"])
        if "failed" in found:
            log.error("A schema could not be examined: %s", found["failed"])
            raise store_failed("The schema could not be examined; the server's log says why")
        if len(body) <= KNOWN_BYTES_MAX:
            self._remember(body, found["answer"])
        return found["answer"]

    def _remember(self, body: bytes, answer: Any) -> None:
        if body not in self._known:  # two may have asked it at a time
            self._known_bytes += len(body)
        self._known[body] = answer
        while len(self._known) > KNOWN_MAX or self._known_bytes > KNOWN_BYTES_SUM_MAX:
            self._known_bytes -= len(self._known.popitem(last=False)[0])

    async def close(self) -> None:
        """End the processes."""
        await asyncio.gather(self._small.close(), self._large.close())


class _Lane:
    """One process, started when it is first asked, and one question at a time."""

    def __init__(self, seconds_max: float) -> None:
        self._seconds_max = seconds_max
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def ask(self, body: bytes) -> dict[str, Any]:
        if self._waiting >= WAITING_MAX:
            raise timed_out("Too many schemas wait to be examined")
        self._waiting += 1
        try:
            async with self._turn:
                return await self._asked(body)
        finally:
            self._waiting -= 1

    async def _asked(self, body: bytes) -> dict[str, Any]:
        whole = False
        try:
            async with asyncio.timeout(self._seconds_max):
                process = await self._running()
                assert process.stdin is not None and process.stdout is not None
                process.stdin.write(len(body).to_bytes(4) + body)
                await process.stdin.drain()
                size = int.from_bytes(await process.stdout.readexactly(4))
                if size > ANSWER_BYTES_MAX:
                    raise invalid_schema("The schema is too large in this form")
                found: dict[str, Any] = json.loads(await process.stdout.readexactly(size))
                whole = True
                return found
        except TimeoutError:
            raise invalid_schema(f"The schema takes longer than {self._seconds_max:g} s to be examined") from None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise invalid_schema("The schema takes too much to be examined") from None
        finally:
            if not whole:  # a cancelled question's answer must not become the next one's
                await asyncio.shield(self._end())

    async def _running(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            self._process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "ottla.registry.examining.process"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # a Ctrl-C is for the registry, which then ends this one
            )
        return self._process

    async def _end(self) -> None:
        process, self._process = self._process, None
        if process is not None and process.returncode is None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def close(self) -> None:
        await self._end()
