"""From a frame to a handler and back: headers, versions, access, and the one place where errors become answers.

- An API or a version that is not served closes the connection, as in Kafka; only ApiVersions answers an unknown
version, in its version 0 with UNSUPPORTED_VERSION, so that a newer client can ask again (KIP-511).
- A KafkaError becomes the API's own error response. Bytes that are not a message close the connection with one line. An
  unexpected exception is our mistake: it is logged with its stack and answered with UNKNOWN_SERVER_ERROR.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import perf_counter_ns
from typing import Any, Final

from ottla.background import awaited, count_failure
from ottla.base import ErrorCode, KafkaError, WireError
from ottla.broker.meters import RequestTimes
from ottla.broker.requests.answers import Answer, Deferred, Encoded, Reply
from ottla.broker.requests.connection import Connection, Pending
from ottla.broker.requests.connection_limits import ConnectionLimits
from ottla.broker.requests.error_answers import error_answer
from ottla.broker.requests.error_counts import count_errors
from ottla.broker.requests.forwarding import from_controller
from ottla.broker.requests.handler import Handler, RequestContext
from ottla.broker.requests.local_requests import authorize
from ottla.broker.services import Services
from ottla.security import Operation, Resource
from ottla.wire import APIS, ApiKey, Fetch, Message, decode, encode_response, read_request_header

__all__ = ["Router"]

log = logging.getLogger(__name__)

API_VERSIONS: Final = int(ApiKey.API_VERSIONS)
PRODUCE: Final = int(ApiKey.PRODUCE)
FETCH: Final = int(ApiKey.FETCH)
ASKS_LEADER: Final = frozenset(
    int(each)
    for each in (
        ApiKey.FETCH,
        ApiKey.LIST_OFFSETS,
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        ApiKey.DESCRIBE_PRODUCERS,
        ApiKey.OFFSET_COMMIT,
        ApiKey.OFFSET_FETCH,
        ApiKey.OFFSET_DELETE,
        ApiKey.JOIN_GROUP,
        ApiKey.SYNC_GROUP,
        ApiKey.HEARTBEAT,
        ApiKey.LEAVE_GROUP,
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        ApiKey.DESCRIBE_GROUPS,
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        ApiKey.LIST_GROUPS,
        ApiKey.DELETE_GROUPS,
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.LIST_TRANSACTIONS,
    )
)
"""What the leader or coordinator of a partition answers from what it has: it asks the copies first where it is not sure."""
THROTTLE: Final = "throttle_time_ms"
NS_PER_S: Final = 1_000_000_000
NS_PER_MS: Final = 1_000_000
FIXED_HEADER_BYTES: Final = 10
"""API key, version, correlation id and the client id's length."""
read_fixed_header: Final = struct.Struct(">hhih").unpack_from


class _Route:
    """A handler with what each request needs of its API's description."""

    __slots__ = (
        "asks_leader",
        "charges_time",
        "flexible_from",
        "follower_times",
        "handle",
        "handler",
        "highest",
        "is_fetch",
        "lowest",
        "name",
        "needs_cluster",
        "read",
        "requests",
        "times",
    )

    def __init__(self, handler: Handler[Any], services: Services) -> None:
        spec = APIS[handler.api_key]
        self.handler = handler
        self.name = spec.name
        self.lowest, self.highest = handler.versions
        self.flexible_from = spec.flexible_from
        self.asks_leader = handler.api_key in ASKS_LEADER
        self.needs_cluster = handler.needs.resource is Resource.CLUSTER
        self.handle: Callable[[RequestContext[Any], Any], Answer] = handler.handle
        if handler.forwards and not handler.splits:
            self.handle = partial(from_controller, handler)
        self.read: Callable[[memoryview, int, int], Any] = handler.read or partial(_read, handler.request)
        self.requests = services.metrics.counter(f"RequestMetrics.RequestsPerSec,request={spec.name}")
        self.times: RequestTimes = services.metrics.request(spec.name)
        self.follower_times: RequestTimes = self.times
        self.is_fetch = handler.request is Fetch
        if self.is_fetch:
            self.times = services.metrics.request("FetchConsumer")
            self.follower_times = services.metrics.request("FetchFollower")
        # Produce and Fetch charge for time themselves, since they also write it into their bytes; brokers' own requests
        # are not limited, as in Kafka.
        self.charges_time = handler.api_key not in (PRODUCE, FETCH) and not (
            self.needs_cluster and handler.needs.operation is Operation.CLUSTER_ACTION
        )


def _is_nodes_own(route: _Route, context: RequestContext[Any], request: Any) -> bool:
    """Return whether a request is a controller's, or a follower's Fetch, which is itself what confirms a leader."""
    return context.connected.is_controller or (route.is_fetch and request.replica_id >= 0)


def _read(request: type[Any], frame: memoryview, version: int, position: int) -> Any:
    return decode(request, frame, version, position)[0]


class Router:
    """Answers the requests of every connection of one kind of listener."""

    def __init__(self, services: Services, handlers: Sequence[Handler[Any]], limits: ConnectionLimits) -> None:
        self._services = services
        self._limits = limits
        self._memory = services.answer_memory
        self._routes: list[_Route | None] = [None] * (1 + max(handler.api_key for handler in handlers))
        for handler in handlers:
            self._routes[handler.api_key] = _Route(handler, services)
        self.opened = limits.opened
        self.closed = limits.closed

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Answer one request, now or when its answer comes; whatever goes wrong stays with this connection."""
        try:
            self._dispatch(connection, frame)
        except WireError as error:
            connection.complain(error)
            connection.close()
        except Exception:  # our own mistake: it is said, and costs this connection only
            log.exception("Closing a connection: a request of %s bytes could not be handled", len(frame))
            count_failure("requests")
            connection.close()

    def held_back(self, frame: memoryview, seconds: float) -> None:
        """Called with how long a request had to let earlier answers leave first."""
        api_key = int.from_bytes(frame[:2], "big")
        route = self._routes[api_key] if api_key < len(self._routes) else None
        if route is not None:
            route.times.queued.record_ns(int(seconds * NS_PER_S))

    def _dispatch(self, connection: Connection, frame: memoryview) -> None:
        started_ns = perf_counter_ns()
        try:
            api_key, version, correlation_id, client_id_length = read_fixed_header(frame, 0)
        except struct.error as error:
            raise WireError(f"a request of {len(frame)} bytes has no header") from error
        route = self._routes[api_key] if 0 <= api_key < len(self._routes) else None
        if route is None:
            raise WireError(f"API {api_key} is not served on this listener")
        if not route.lowest <= version <= route.highest:
            if api_key != API_VERSIONS:
                raise WireError(f"{route.name} version {version} is not served: {route.lowest} to {route.highest} are")
            version, request, position = 0, None, 0
        else:
            position = self._after_header(connection, frame, client_id_length, flexible=version >= route.flexible_from)
            request = route.read(frame, version, position)
        route.requests.value += 1
        context = RequestContext(
            self._services,
            connection.connected,
            api_key,
            version,
            correlation_id,
            connection.client_id,
            len(frame),
            started_ns,
        )
        try:
            if request is None:
                raise KafkaError(ErrorCode.UNSUPPORTED_VERSION)
            if route.needs_cluster:
                authorize(route.handler, context)
            answer: Answer
            if route.asks_leader and not self._services.lease.is_sure and not _is_nodes_own(route, context, request):
                answer = self._services.confirmation.before(partial(route.handle, context, request))
            else:
                answer = route.handle(context, request)
        except Exception as error:  # rendered in the one place for it; what is none of the protocol's is logged there
            answer = self._error_answer(route, request, error, context.api_version)
        times = route.times
        if route.is_fetch and request is not None and request.replica_id >= 0:
            times = route.follower_times
        if type(answer) is Encoded:
            if self._services.quotas is not None:
                self._keep_waiting(connection, route, times, context, answer.throttle_time_ms)
            if answer.parts:
                connection.answer(answer.parts, has_files=answer.has_files)
            if route.handler.quick is not None and self._services.quotas is None:
                self._learn(connection, route, frame, version, position, request)
        elif isinstance(answer, Message):
            context.has_room = connection.has_room
            message = self._throttled(connection, route, times, context, answer)
            encoded = _encoded(context, message)
            if self._memory.is_full and self._must_wait(context, len(encoded)):
                place = Pending(0, pipelines=False)
                connection.wait_for(place)
                self._settle_in_turn(connection, place, context, message)
            else:
                connection.answer((encoded,))
        elif answer is not None:
            context.worked_ns = perf_counter_ns() - started_ns
            if route.handler.quick is not None and isinstance(answer, Deferred) and self._services.quotas is None:
                self._learn(connection, route, frame, version, position, request)
            self._wait(connection, route, times, context, request, answer)
            return
        times.immediate.record_ns(perf_counter_ns() - started_ns)

    def _learn(
        self, connection: Connection, route: _Route, frame: memoryview, version: int, position: int, request: Any
    ) -> None:
        """Let what is like this request be handled quickly from now on, where nobody stands between client and router."""
        quick = connection.quick
        make = route.handler.quick
        assert make is not None
        if quick is None or type(quick) is not make:  # of the requests of one API: those that came last
            if not connection.is_served_by(self) or connection.connected.is_controller:
                return
            connection.quick = quick = make(self._services, route.requests, route.times)
        quick.learn(frame, version, position, request, connection.client_id or "")

    def _after_header(self, connection: Connection, frame: memoryview, client_id_length: int, *, flexible: bool) -> int:
        """Return where the body begins; take in the client id, which rarely changes on a connection."""
        position = FIXED_HEADER_BYTES
        if client_id_length > 0:
            position += client_id_length
            client_id = bytes(frame[FIXED_HEADER_BYTES:position])
            if client_id != connection.client_id_bytes:
                connection.client_id_bytes = client_id
                connection.client_id = client_id.decode("utf-8", "replace")
        if flexible:
            if position < len(frame) and frame[position] == 0:
                return position + 1
            return read_request_header(frame)[1]
        if position > len(frame) or client_id_length < -1:
            raise WireError("the client id is longer than the request")
        return position

    # -- answers

    def _throttled(
        self, connection: Connection, route: _Route, times: RequestTimes, context: RequestContext[Any], message: Any
    ) -> Any:
        """Return an answer as it is sent: it says how long the client has to wait where it has exceeded a quota."""
        count_errors(times.errors, message)
        if self._services.quotas is not None:
            throttle_ms = getattr(message, THROTTLE, -1)
            wait_ms = self._keep_waiting(connection, route, times, context, throttle_ms)
            if wait_ms > throttle_ms >= 0:
                message = message.replace(throttle_time_ms=wait_ms)
        return message

    def _keep_waiting(
        self, connection: Connection, route: _Route, times: RequestTimes, context: RequestContext[Any], throttle_ms: int
    ) -> int:
        """Charge a request for its time; read nothing from a client that has exceeded a quota (KIP-219)."""
        quotas = self._services.quotas
        if quotas is not None and route.charges_time:
            throttle_ms = max(throttle_ms, quotas.worked(context))
        if throttle_ms > 0:
            connection.mute(throttle_ms, None if quotas is None else quotas.client_of(context))
            times.throttled.record_ns(throttle_ms * NS_PER_MS)
        return throttle_ms

    def _wait(
        self,
        connection: Connection,
        route: _Route,
        times: RequestTimes,
        context: RequestContext[Any],
        request: Any,
        answer: Deferred[Any] | Awaitable[Reply],
    ) -> None:
        """Keep the answer's place in the order, and fill it when it comes."""
        pipelines = route.handler.api_key == PRODUCE and isinstance(answer, Deferred)
        place = Pending(context.request_bytes, pipelines=pipelines)

        def settle(found: Any, error: BaseException | None) -> None:
            self._settle(connection, route, times, context, place, request, found, error)

        connection.wait_for(place)
        if isinstance(answer, Deferred):
            place.give_up = answer.give_up
            answer.listen(settle)
        else:
            _run_for(place, answer, settle)

    def _settle(
        self,
        connection: Connection,
        route: _Route,
        times: RequestTimes,
        context: RequestContext[Any],
        place: Pending,
        request: Any,
        answer: Any,
        error: BaseException | None,
    ) -> None:
        """Send what a place waited for; whatever goes wrong here stays with this connection, as in `handle`."""
        try:
            if error is not None:
                answer = self._error_answer(route, request, error, context.api_version)
            if asyncio.iscoroutine(answer):  # a wait that ended with records to be read from the device first
                _run_for(place, answer, partial(self._settle, connection, route, times, context, place, request))
                return
            total_ns = perf_counter_ns() - context.started_ns
            times.waited.record_ns(total_ns)
            times.waited_local.record_ns(context.worked_ns)  # with what slices have charged since
            times.remote.record_ns(total_ns - context.worked_ns)
            if answer is None:
                connection.settle(place, ())
            elif type(answer) is Encoded:
                if self._services.quotas is not None:
                    self._keep_waiting(connection, route, times, context, answer.throttle_time_ms)
                connection.settle(place, answer.parts, has_files=answer.has_files)
            else:
                message = self._throttled(connection, route, times, context, answer)
                encoded = _encoded(context, message)
                if self._memory.is_full and self._must_wait(context, len(encoded)):
                    self._settle_in_turn(connection, place, context, message)
                else:
                    connection.settle(place, (encoded,))
        except WireError as refused:
            connection.complain(refused)
            connection.close()
        except Exception:  # our own mistake: it is said, and costs this connection only
            log.exception("Closing a connection: the answer to %s could not be sent", route.name)
            count_failure(f"requests {route.name}")
            connection.close()

    def _must_wait(self, context: RequestContext[Any], size: int) -> bool:
        """Return whether an answer of so many bytes has to wait, because too many lie unread."""
        return (
            not context.has_room
            and not context.connected.is_controller
            and self._memory.must_wait(size, is_follower=False)
        )

    def _settle_in_turn(
        self, connection: Connection, place: Pending, context: RequestContext[Any], message: Any
    ) -> None:
        """Encode an answer anew when there is room: meanwhile it consists of references to what the node has anyway."""

        def go() -> None:
            connection.settle(place, (_encoded(context, message),))

        place.task = None
        place.give_up = partial(self._memory.give_up, self._memory.wait(go))

    # -- errors

    def _error_answer(self, route: _Route, request: Any, error: BaseException, version: int) -> Message:
        """Return the API's own response that says what went wrong; raises WireError where none can."""
        if not isinstance(error, Exception):
            raise error
        return error_answer(route.handler, request, error, version)


def _encoded(context: RequestContext[Any], message: Any) -> bytes:
    return encode_response(message, context.api_key, context.api_version, context.correlation_id)


def _run_for(place: Pending, answer: Awaitable[Any], settle: Callable[[Any, BaseException | None], None]) -> None:
    """Run a coroutine as a task of its place, and settle with what comes of it."""

    def ended(done: asyncio.Future[Any]) -> None:
        if not done.cancelled():
            error = done.exception()
            settle(None if error is not None else done.result(), error)

    place.task = awaited(answer)
    place.task.add_done_callback(ended)
