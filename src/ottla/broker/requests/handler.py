"""How one Kafka API is declared and answered: `HANDLER = Handler(...)` in `broker/api/<api>.py`.

A handler is a plain function of (context, request). It returns a response message, `Encoded` bytes, or None for no
answer at all; or it returns an awaitable of one of these where it has to wait (an `async def` does). It raises
KafkaError for an error of the whole request, which the router renders with the API's own error response.

On CLUSTER the router asks for the access that the API needs before the handler runs. On any other resource the handler
asks for each name, with `context.allows`, since one answer carries allowed and refused names side by side.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Protocol, TypeVar

from ottla.base import Clock, KafkaError, Millis
from ottla.broker.meters import Counter, RequestTimes
from ottla.broker.requests.answers import Answer
from ottla.broker.requests.authorizer import Authorizer
from ottla.broker.requests.connected import Connected
from ottla.broker.requests.connection import QuickRequests
from ottla.security import CLUSTER_NAME, Needs, Operation, Resource

__all__ = ["AccessParts", "Handler", "RequestContext"]


class AccessParts(Protocol):
    """What every handler may use of the broker: who may do what, and the time."""

    authorizer: Authorizer
    clock: Clock


R = TypeVar("R")
P_co = TypeVar("P_co", bound=AccessParts, covariant=True)


class RequestContext(Generic[P_co]):
    """What a handler is told besides the request: its header's fields, the peer, and the parts of the broker that it uses.

    Which parts these are, the type says (`ottla.broker.parts`); the router gives all of them to everyone.
    """

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
        services: P_co,
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

    def allows(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME, references: int = 1) -> bool:
        """Return whether the peer may do this to the resource of that name, which the request names so many times."""
        return self.services.authorizer.allows(
            self.connected, operation, resource, name, self.api_key, True, references
        )

    def would_allow(self, operation: Operation, resource: Resource, name: str = CLUSTER_NAME) -> bool:
        """Return the same where nothing is granted or refused by it: to filter a list, or to say what a client may do."""
        return self.services.authorizer.allows(self.connected, operation, resource, name, self.api_key, False)

    def allows_on_some(self, operation: Operation, resource: Resource) -> bool:
        """Return whether the peer may do this to some resource of the type, be there one or not."""
        return self.services.authorizer.allows_on_some(self.connected, operation, resource, self.api_key)

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
    handle: Callable[[RequestContext[Any], R], Answer]
    error_response: Callable[[R, KafkaError], Any] | None = field(default=None, kw_only=True)
    read: Callable[[memoryview, int, int], Any] | None = field(default=None, kw_only=True)
    api_key: int = field(default=-1, kw_only=True)
    """The API's key where `request` is not the generated class, which carries it."""
    forwards: bool = field(default=False, kw_only=True)
    """True where only the active controller answers: a broker that is not it sends such a request on (KIP-590)."""
    splits: bool = field(default=False, kw_only=True)
    """True where the handler itself forwards a part of the request, since the rest is this broker's own."""
    quick: Callable[[Any, Counter, RequestTimes], QuickRequests] | None = field(default=None, kw_only=True)
    """The class of what handles requests that are like one before them; it gets what requests are counted in."""
    advertised_from: int = field(default=-1, kw_only=True)
    """The lowest version that ApiVersions names, where clients must be told a lower one than is served."""

    def __post_init__(self) -> None:
        if self.advertised_from < 0:
            object.__setattr__(self, "advertised_from", self.versions[0])
        if self.api_key < 0:
            object.__setattr__(self, "api_key", int(self.request.API_KEY))  # type: ignore[attr-defined]
