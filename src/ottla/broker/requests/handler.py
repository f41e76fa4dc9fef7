"""How one Kafka API is declared and answered: `HANDLER = Handler(...)` in `broker/api/<api>.py`.

A handler is a plain function of (context, request). It returns a response message, `Encoded` bytes, or None for no
answer at all; or it returns an awaitable of one of these where it has to wait (an `async def` does). It raises
KafkaError for an error of the whole request, which the router renders with the API's own error response.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.base import KafkaError, Millis

if TYPE_CHECKING:
    from ottla.broker.services import Services

__all__ = [
    "NOTHING",
    "Answer",
    "Connected",
    "Deferred",
    "Encoded",
    "Handler",
    "Needs",
    "Operation",
    "RequestContext",
    "Resource",
]

R = TypeVar("R")


class Operation(IntEnum):
    """What a request does to a resource: the codes of Kafka's `AclOperation`."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Resource(IntEnum):
    """What a request touches: the codes of Kafka's `ResourceType` for ACLs."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


CLUSTER_NAME = "kafka-cluster"
"""The name of the one CLUSTER resource."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The access that an API needs.

    On CLUSTER the router asks before the handler runs. On any other resource the handler asks for each name, with
    `context.allows`, since one answer carries allowed and refused names side by side.
    """

    operation: Operation | None
    resource: Resource | None


NOTHING = Needs(None, None)
"""For what everyone may ask, such as ApiVersions."""


class Encoded:
    """An answer that is bytes already: `parts` in order, the length and the response header among them.

    A part may be a `FilePart`, which the connection sends from the file in its turn; then `has_files` is set. Where the
    answer tells the client to wait, `throttle_time_ms` says the same to the connection; without parts it is no answer.
    """

    __slots__ = ("has_files", "parts", "throttle_time_ms")

    def __init__(self, parts: Sequence[Any], *, has_files: bool = False, throttle_time_ms: int = 0) -> None:
        self.parts = parts
        self.has_files = has_files
        self.throttle_time_ms = throttle_time_ms


class Deferred:
    """An answer that comes later without a task: whoever holds it calls `resolve` or `fail`, once, on the event loop.

    An awaitable costs a task and two turns of the loop; the paths that wait for a high watermark use this.
    """

    __slots__ = ("_answer", "_error", "_kept", "_listener", "is_done", "on_give_up")

    def __init__(self) -> None:
        self.is_done = False
        self._answer: Any = None
        self._error: Exception | None = None
        self._listener: Callable[[Any, Exception | None], None] | None = None
        self._kept: object = None
        self.on_give_up: Callable[[], None] | None = None
        """Called where whoever asked is gone before there is an answer; then none has to come."""

    def give_up(self) -> None:
        """Say that nobody waits for the answer any more."""
        if self.on_give_up is not None and not self.is_done:
            self.on_give_up()

    def keep(self, task: object) -> None:
        """Hold on to whatever works on the answer, so that it is not collected before it is done."""
        self._kept = task

    def resolve(self, answer: Any) -> None:
        """Give the answer."""
        assert not self.is_done
        self.is_done = True
        self._answer = answer
        if self._listener is not None:
            self._listener(answer, None)

    def fail(self, error: Exception) -> None:
        """Give an error in place of the answer."""
        assert not self.is_done
        self.is_done = True
        self._error = error
        if self._listener is not None:
            self._listener(None, error)

    def listen(self, listener: Callable[[Any, Exception | None], None]) -> None:
        """Call this with (answer, error) once there is one, at once where there is already."""
        self._listener = listener
        if self.is_done:
            listener(self._answer, self._error)

    def then(self, change: Callable[[Any], Any]) -> Deferred:
        """Return the answer that `change` makes of this one when it comes."""
        changed = Deferred()
        changed.keep(self)
        self.listen(lambda answer, error: changed.resolve(change(answer)) if error is None else changed.fail(error))
        return changed

    async def wait(self) -> Any:
        """Return the answer, for a coroutine that needs it."""
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def listener(answer: Any, error: Exception | None) -> None:
            if not future.done():
                if error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(answer)

        self.listen(listener)
        try:
            return await future
        except asyncio.CancelledError:
            self.give_up()
            raise


Answer = Any
"""A response message, Encoded, None, a Deferred, or an awaitable of the first three."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """Who is at the other end of a connection, and through which listener it came."""

    listener: str
    client_host: str = ""
    client_port: int = 0
    principal: str = "User:ANONYMOUS"
    is_controller: bool = False
    """True on a controller listener."""


class RequestContext:
    """What a handler is told besides the request: its header's fields, the peer, and the broker's services."""

    __slots__ = (
        "api_key",
        "api_version",
        "client_id",
        "connected",
        "correlation_id",
        "has_room",
        "request_bytes",
        "services",
        "started_ns",
        "worked_ns",
    )

    def __init__(
        self,
        services: Services,
        connected: Connected,
        api_key: int,
        api_version: int,
        correlation_id: int,
        client_id: str | None,
        request_bytes: int = 0,  # positional: by keyword, two more cost every request 0.15 µs
        started_ns: int = 0,
    ) -> None:
        self.services = services
        self.connected = connected
        self.api_key = api_key
        self.api_version = api_version
        self.correlation_id = correlation_id
        self.client_id = client_id
        self.request_bytes = request_bytes
        self.started_ns = started_ns
        """When handling began, on the clock of `time.perf_counter_ns`."""
        self.has_room = False
        """True where the answer, however large, may be made now: it was its turn."""
        self.worked_ns = -1
        """How long it took until the answer had to be waited for; below 0 where it has not been."""

    def allows(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """Return whether the peer may do this to the resource of that name."""
        return self.services.authorizer.allows(self.connected, operation, resource, name)

    def now_ms(self) -> Millis:
        """Return the wall clock's time."""
        return self.services.clock.now_ms()


@dataclass(frozen=True, slots=True)
class Handler(Generic[R]):
    """One API: its request, the versions served, the access it needs, and the function that answers.

    `read` replaces the generated reader (hot path): it gets (frame, version, position of the body). `error_response`
    builds the API's response to an error of the whole request; where it is missing, the response's own top-level
    `error_code` and `error_message` are set.
    """

    request: type[R]
    versions: tuple[int, int]
    needs: Needs
    handle: Callable[[RequestContext, R], Answer | Awaitable[Answer]]
    error_response: Callable[[R, KafkaError], Any] | None = field(default=None, kw_only=True)
    read: Callable[[memoryview, int, int], Any] | None = field(default=None, kw_only=True)
    api_key: int = field(default=-1, kw_only=True)
    """The API's key where `request` is not the generated class, which carries it."""
    forwards: bool = field(default=False, kw_only=True)
    """True where only the active controller answers: a broker that is not it sends such a request on (KIP-590)."""
    splits: bool = field(default=False, kw_only=True)
    """True where the handler itself forwards a part of the request, since the rest is this broker's own."""
    advertised_from: int = field(default=-1, kw_only=True)
    """The lowest version that ApiVersions names, where clients must be told a lower one than is served."""

    def __post_init__(self) -> None:
        if self.advertised_from < 0:
            object.__setattr__(self, "advertised_from", self.versions[0])
        if self.api_key < 0:
            object.__setattr__(self, "api_key", int(self.request.API_KEY))  # type: ignore[attr-defined]
