"""The server's schema registry: a value that travels with plans to hosts, and asks from wherever it is.

A server plans and asks in threads (`Asking`), and no longer than its limits: what is slow there holds up nobody else.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from ottla.schemas import ParsedSchema
from ottla.serdes import KnownSchema, Registry, SchemaText, SerdeError, serde_settings
from ottla.sql import RegistryAwayError, SqlError
from ottla.sql.answers import WITH_SCHEMAS, SchemaRegistry
from ottla.sql.commands import Catalogue
from ottla.sql_server.errors import TOO_MANY, StatementError
from ottla.sql_server.workers import BUSY, Watch, Workers
from ottla.streams import Record

__all__ = ["Asking", "ReadRegistry", "ServerRegistry", "registry_of"]

PREFIX = "ksql.schema.registry."
WITH_PREFIX = ("url", "ssl.")
"""What the serializers' settings have under `schema.registry.`; all else they have without it."""
THREADS = 8
PLANNING_SECONDS_MAX = 10.0
"""For a new statement, where no registry's limit counts."""
UNKNOWN_SECONDS, UNKNOWN_MAX = 60.0, 1_000
"""How long, and for how many ids, it is remembered that the registry has no such schema."""
LEARNED_MAX = 10_000
_ID_BYTES = 5
T = TypeVar("T")


@dataclass(slots=True)
class ServerRegistry:
    """A `SchemaRegistry` of SQL's; its client is made when it is first asked."""

    properties: tuple[tuple[str, str], ...] = field(repr=False)
    _asked: Registry | None = field(default=None, compare=False, repr=False)
    _unknown: dict[int, tuple[float, SerdeError]] = field(default_factory=dict, compare=False, repr=False)

    def __reduce__(self) -> tuple[type[ServerRegistry], tuple[tuple[tuple[str, str], ...]]]:
        return type(self), (self.properties,)

    @property
    def _registry(self) -> Registry:
        if self._asked is None:
            self._asked = Registry(serde_settings(dict(self.properties), is_key=False))
        return self._asked

    def register(self, subject: str, schema: SchemaText) -> KnownSchema:
        """See `SchemaRegistry`."""
        return self._registry.register(subject, schema)

    def latest(self, subject: str) -> KnownSchema:
        """See `SchemaRegistry`."""
        return self._registry.latest(subject)

    def by_id(self, number: int) -> SchemaText:
        """See `SchemaRegistry`; an id that is not there is not asked for again within a minute."""
        until_s, refused = self._unknown.get(number, (0.0, None))
        if refused is not None and time.monotonic() < until_s:
            raise SerdeError(str(refused))
        try:
            return self._registry.by_id(number)
        except SerdeError as error:
            if not error.retriable:
                if len(self._unknown) >= UNKNOWN_MAX:
                    self._unknown.clear()
                self._unknown[number] = time.monotonic() + UNKNOWN_SECONDS, error
            raise

    def parsed(self, schema: SchemaText) -> ParsedSchema:
        """See `SchemaRegistry`."""
        return self._registry.parsed(schema)


@dataclass(frozen=True, slots=True)
class ReadRegistry:
    """A `SchemaRegistry` that is only read: what would be registered is taken for registered, and nothing is.

    EXPLAIN plans with it, since it tells what a statement would do and does nothing.
    """

    of: SchemaRegistry

    def register(self, subject: str, schema: SchemaText) -> KnownSchema:
        """Return a schema without an id, which it has not."""
        return KnownSchema(schema)

    def latest(self, subject: str) -> KnownSchema:
        """See `SchemaRegistry`."""
        return self.of.latest(subject)

    def by_id(self, number: int) -> SchemaText:
        """See `SchemaRegistry`."""
        return self.of.by_id(number)

    def parsed(self, schema: SchemaText) -> ParsedSchema:
        """See `SchemaRegistry`."""
        return self.of.parsed(schema)


def registry_of(properties: Mapping[str, str], timeout_s: float) -> ServerRegistry | None:
    """Return the registry that `ksql.schema.registry.url` names, with what else is said of it; None without one.

    `timeout_s` bounds each of its requests where no `http.….timeout.ms` is given.
    """
    if not properties.get(f"{PREFIX}url"):
        return None
    given = {
        name.removeprefix(PREFIX): value for name, value in properties.items() if name.startswith(PREFIX) and value
    }
    timeout_ms = str(max(1, int(timeout_s * 1000)))
    found = {"http.read.timeout.ms": timeout_ms, "http.connect.timeout.ms": timeout_ms}
    found |= {f"schema.registry.{name}" if name.startswith(WITH_PREFIX) else name: each for name, each in given.items()}
    return ServerRegistry(tuple(sorted(found.items())))


class Asking:
    """Runs what plans statements, and what may ask the schema registry, in threads beside the server's loop."""

    def __init__(
        self,
        url: str,
        timeout_s: float,
        catalogue: Callable[[], Catalogue],
        *,
        planning_s: float | None = None,
    ) -> None:
        """`url` is the registry's, empty without one.

        `planning_s` is the limit of what a call evaluates, and of a call where there is no registry.
        """
        self._url, self._timeout_s, self._catalogue = url, timeout_s, catalogue
        self._planning_s = PLANNING_SECONDS_MAX if planning_s is None else planning_s
        self._workers = Workers("planning", THREADS)
        self._commands = Workers("commands", THREADS)
        """For what has to end, which waits for no statement."""
        self._learned: set[int] = set()

    def close(self) -> None:
        """Begin no more calls; those that run end by themselves."""
        self._workers.close()
        self._commands.close()

    async def run(self, call: Callable[[], T], *, has_to_end: bool = False) -> T:
        """Return what a call gives; raises what it raises, and for one that takes too long RegistryAwayError.

        Without a registry that is an SqlError, and a call that `has_to_end` has no limit: for a command that is in the
        topic already, and a statement of a headless server's file.
        """
        limit_s = self._timeout_s if self._url else None if has_to_end else self._planning_s
        watch = Watch(math.inf if has_to_end else self._planning_s)
        workers = self._commands if has_to_end else self._workers
        limit = asyncio.timeout(limit_s)
        try:
            async with limit:
                return await workers.run(watch, call)
        except TimeoutError:
            if not limit.expired():
                raise
            if watch.waits:
                raise StatementError(TOO_MANY, BUSY) from None
            if not self._url:
                raise SqlError(f"The statement could not be planned within {self._planning_s:g} s") from None
            raise RegistryAwayError(
                f"The schema registry at {self._url} did not answer within {self._timeout_s:g} s "
                "(ottla.sql.registry.timeout.ms)"
            ) from None

    async def learn(self, records: Iterable[Record]) -> None:
        """Ask for the schemas that records were written with, so that reading them asks for nothing any more.

        Raises RegistryAwayError. An id that the registry does not know is left to who reads the record.
        """
        ids = self._ids(records)
        registry = self._catalogue().registry
        if not ids or registry is None:
            return

        def ask() -> None:
            for each in sorted(ids):
                try:
                    schema = registry.by_id(each)
                    if schema.references:
                        registry.parsed(schema)
                except SerdeError as error:
                    if error.retriable:
                        raise RegistryAwayError(str(error)) from error
                else:
                    self._learned.add(each)

        if len(self._learned) > LEARNED_MAX:
            self._learned.clear()
        await self.run(ask)

    def _ids(self, records: Iterable[Record]) -> set[int]:
        """The ids that keys and values begin with which are in a format with schemas."""
        parts: dict[str, tuple[bool, bool]] = {}
        for source in self._catalogue().sources.values():
            key, value = parts.get(source.topic, (False, False))
            layout = source.layout
            parts[source.topic] = key or layout.key_format in WITH_SCHEMAS, value or layout.value_format in WITH_SCHEMAS
        found: set[int] = set()
        for record in records:
            for is_there, data in zip(parts.get(record.topic, ()), (record.key, record.value), strict=False):
                if is_there and data is not None and len(data) >= _ID_BYTES and data[0] == 0:
                    found.add(int.from_bytes(data[1:_ID_BYTES], signed=True))
        return found - self._learned - {0}
