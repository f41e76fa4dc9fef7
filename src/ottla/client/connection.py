"""One connection to one broker: versions agreed on, requests pipelined, answers matched in order.

A connection is opened by `Connection.open`: connect, with TLS where the network has it, then ApiVersions (KIP-35, KIP-511),
then the login where there is one (KIP-43, KIP-152). A login that ends is renewed on the open connection, before it does;
requests wait meanwhile (KIP-368).
"""

from __future__ import annotations

import asyncio
import random
import ssl
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from ottla.background import supervise
from ottla.base import ErrorCode, KafkaError, WireError
from ottla.client.addresses import Address
from ottla.client.security import SecuredNetwork
from ottla.net import FrameProtocol, Network, ReceiveBuffer
from ottla.security.sasl import AuthenticationError, ClientExchange
from ottla.wire import APIS, ApiKey, ApiSpec, Buffer, encode_request, read_response
from ottla.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest

__all__ = ["IN_FLIGHT_MAX", "Answering", "Connection", "network_error"]

IN_FLIGHT_MAX = 64
"""Requests of ours that one broker may still have to answer; a further one waits, so that memory stays bounded."""
FRAME_BYTES_MAX = 1 << 30
"""The largest answer that is accepted: Fetch answers exceed their limits by at most one batch."""
SOFTWARE_NAME = "ottla"
REFUSED = "refused the connection"
"""What is said of an address where nothing listens."""
RENEWED_FROM, RENEWED_UNTIL = 0.85, 0.95
"""The part of its lifetime after which a login is renewed; somewhere between, so that not all clients come at once."""
TOKENS_MAX = 10
"""Tokens of one login; SCRAM has two."""


def network_error(address: Address, reason: object) -> KafkaError:
    """Return the error that names the broker which could not be reached or went away; retriable, unless TLS has failed."""
    if isinstance(reason, ssl.SSLError):  # trying again would end alike
        text = f"{address}: SSL handshake failed: {reason.args[-1] if reason.args else reason}"
        return KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
    if isinstance(reason, ConnectionRefusedError):
        reason = REFUSED
    elif isinstance(reason, TimeoutError):
        reason = "did not answer in time"
    elif isinstance(reason, OSError):
        reason = f"cannot be reached: {reason.strerror or reason}"
    return KafkaError(ErrorCode.NETWORK_EXCEPTION, f"{address} {reason}")


class Answering(Protocol):
    """Who waits for an answer: a future has this form."""

    def done(self) -> bool:
        """Return whether nobody waits any more."""
        ...

    def set_result(self, frame: memoryview, /) -> None:
        """Take the answer."""
        ...

    def set_exception(self, error: KafkaError, /) -> None:
        """Hear that there will be none."""
        ...


class Connection:
    """Speaks with one broker; made by `open`."""

    def __init__(self, address: Address, client_id: str, software_version: str) -> None:
        self.address = address
        self._client_id = client_id
        self._software_version = software_version
        self._versions: dict[int, tuple[int, int]] = {}
        self._features: dict[str, int] = {}
        self._frames: FrameProtocol | None = None
        self._waiting: deque[tuple[int, Answering]] = deque()
        self._slots = asyncio.Semaphore(IN_FLIGHT_MAX)
        self._turn = asyncio.Lock()
        """Who has it writes next; a lock wakes those who wait in their order, and lets nobody past them."""
        self._writable = asyncio.Event()
        self._writable.set()
        self._correlation_id = 0
        self._is_secured = False
        self._begin_login: Callable[[], Awaitable[ClientExchange]] | None = None
        self._login_timeout_s = 0.0
        self._renewal: asyncio.Task[None] | None = None
        """The renewal of the login under way: all else waits for it."""
        self._renewal_timer: asyncio.TimerHandle | None = None
        self._posted: list[tuple[Callable[[int], Buffer], Answering]] = []
        """What was posted meanwhile."""
        self._error: KafkaError | None = None
        self._ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once there is an error, so that nobody waits for a renewal that is of no use any more."""

    @classmethod
    async def open(
        cls,
        network: Network,
        address: Address,
        *,
        client_id: str,
        software_version: str,
        timeout_s: float,
        buffer: ReceiveBuffer | None = None,
    ) -> Connection:
        """Connect, agree on versions, and log in where the network's clients do.

        Raises KafkaError naming the address that failed: NETWORK_EXCEPTION, or SASL_AUTHENTICATION_FAILED and
        UNSUPPORTED_SASL_MECHANISM where trying again would end alike.
        """
        connection = cls(address, client_id, software_version)
        security = network.security if isinstance(network, SecuredNetwork) else None
        connection._is_secured = security is not None and security.tls is not None
        try:
            async with asyncio.timeout(timeout_s):
                await network.connect(
                    address.host,
                    address.port,
                    lambda: FrameProtocol(connection, buffer=buffer, frame_bytes_max=FRAME_BYTES_MAX),
                )
                await connection._negotiate(timeout_s)
                begin = None if security is None else security.login(address.host)
                if begin is not None:
                    await connection._log_in(begin, timeout_s)
        except (OSError, WireError) as error:  # TimeoutError is an OSError
            connection.close()
            raise network_error(address, error) from error
        except BaseException:
            connection.close()
            raise
        return connection

    # -- asking

    @property
    def closed(self) -> bool:
        """True once nothing more can be asked here."""
        return self._error is not None

    @property
    def reached(self) -> str:
        """The address that the broker's host name stood for when this was opened; "" where that is not known any more."""
        transport = None if self._frames is None else self._frames.transport
        peer = None if transport is None else transport.get_extra_info("peername")
        return str(peer[0]) if peer else ""

    @property
    def in_flight(self) -> int:
        """Requests that wait for their answers."""
        return len(self._waiting)

    @property
    def versions(self) -> dict[int, tuple[int, int]]:
        """What the broker offers: lowest and highest version by API key."""
        return dict(self._versions)

    @property
    def features(self) -> dict[str, int]:
        """The levels that the cluster's features are finalised at (KIP-584)."""
        return dict(self._features)

    def version_for(self, api_key: int, *, lowest: int = 0, highest: int | None = None) -> int:
        """Return the highest version that both sides speak, within bounds; raises UNSUPPORTED_VERSION."""
        spec = APIS[api_key]
        offered = self._versions.get(api_key)
        if offered is None:
            raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"{self.address} does not offer {spec.name}")
        low = max(spec.min_version, lowest)
        high = spec.max_version if highest is None else min(spec.max_version, highest)
        version = min(high, offered[1])
        if version < max(low, offered[0]):
            raise KafkaError(
                ErrorCode.UNSUPPORTED_VERSION,
                f"{self.address} offers {spec.name} in versions {offered[0]} to {offered[1]}; {low} to {high} are needed",
            )
        return version

    async def request(
        self, message: Any, version: int, *, timeout_s: float, written: Callable[[], object] | None = None
    ) -> Any:
        """Send one request and return its answer; raises KafkaError (NETWORK_EXCEPTION, REQUEST_TIMED_OUT).

        Requests leave in the order in which they are begun; `written` is called when this one has. One that is cancelled,
        or not answered in time, ends the connection only in the second case: its answer would hold up all later ones.
        """
        spec: ApiSpec = APIS[message.API_KEY]
        frame = await self._exchange(message, spec, version, timeout_s, written)
        try:
            _, response = read_response(spec.response, frame, spec.key, version)
        except WireError as error:
            self._fail(network_error(self.address, f"sent what is no answer to {spec.name}: {error}"))
            raise self._error_now() from error
        return response

    def post(self, encode: Callable[[int], Buffer], answer: Answering) -> None:
        """Send a request now, which `encode` makes with its correlation id, and hand its answer's frame to `answer`.

        For whoever asks one thing after the other and would rather not have a task woken each time. Raises KafkaError
        where the connection is closed.
        """
        if self._error is not None:
            raise self._error_now()
        if self._renewal is not None:
            self._posted.append((encode, answer))
            return
        correlation_id = self._next_correlation_id()
        self._write(encode(correlation_id), (correlation_id, answer))

    async def send(self, message: Any, version: int) -> None:
        """Send a request that is never answered (Produce with acks=0); returns when the transport has taken it."""
        async with self._turn:
            await self._may_write()
            self._write(encode_request(message, version, self._next_correlation_id(), self._client_id))

    async def _exchange(
        self,
        message: Any,
        spec: ApiSpec,
        version: int,
        timeout_s: float,
        written: Callable[[], object] | None = None,
    ) -> memoryview:
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        async with self._turn:
            await self._slots.acquire()
            try:
                await self._may_write()
                correlation_id = self._next_correlation_id()
                data = encode_request(message, version, correlation_id, self._client_id)
                self._write(data, (correlation_id, answer))
            except BaseException:
                self._slots.release()
                raise
        try:
            if written is not None:
                written()
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            text = f"did not answer {spec.name} within {timeout_s:g} s"
            self._fail(network_error(self.address, text))
            raise KafkaError(ErrorCode.REQUEST_TIMED_OUT, f"{self.address} {text}") from None
        finally:
            self._slots.release()

    async def _may_write(self) -> None:
        """Return once the transport takes more and no login is renewed, in whose steps nothing else may be said."""
        while self._error is None:
            renewal = self._renewal
            if renewal is not None and renewal is not asyncio.current_task():
                await asyncio.wait((renewal, self._ended), return_when=asyncio.FIRST_COMPLETED)
            elif not self._writable.is_set():
                await self._writable.wait()
            else:
                return
        raise self._error_now()

    def _write(self, data: Buffer, waiting: tuple[int, Answering] | None = None) -> None:
        assert self._frames is not None
        if waiting is not None:
            self._waiting.append(waiting)
        self._frames.transport.write(data)

    def _next_correlation_id(self) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        return self._correlation_id

    async def _negotiate(self, timeout_s: float) -> None:
        """Learn the broker's versions; an older broker refuses our version in the format of version 0 (KIP-511)."""
        spec = APIS[ApiKey.API_VERSIONS]
        request = ApiVersionsRequest(client_software_name=SOFTWARE_NAME, client_software_version=self._software_version)
        version = spec.max_version
        frame = await self._exchange(request, spec, version, timeout_s)
        if int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
            frame = await self._exchange(request, spec, version, timeout_s)
        _, response = read_response(ApiVersionsResponse, frame, spec.key, version)
        if response.error_code:
            raise KafkaError(ErrorCode(response.error_code), f"{self.address} refused ApiVersions")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
        self._features = {each.name: each.max_version_level for each in response.finalized_features}

    # -- logging in

    async def _log_in(self, begin: Callable[[], Awaitable[ClientExchange]], timeout_s: float) -> None:
        """Log in, or renew the login; raises KafkaError where the broker refuses, or does not prove who it is."""
        exchange = await begin()
        version = self.version_for(ApiKey.SASL_HANDSHAKE, lowest=1)
        hello = await self._asked(SaslHandshakeRequest(mechanism=exchange.mechanism), version, timeout_s)
        if hello.error_code:
            enabled = f"enabled mechanisms are [{', '.join(hello.mechanisms)}]"
            text = f"Client SASL mechanism '{exchange.mechanism}' not enabled in the server, {enabled}"
            raise KafkaError(ErrorCode(hello.error_code), f"{self.address}: {text}")
        version = self.version_for(ApiKey.SASL_AUTHENTICATE)
        token: bytes | None = exchange.start()
        lifetime_ms = 0
        for _ in range(TOKENS_MAX):
            if token is None:
                break
            answer = await self._asked(SaslAuthenticateRequest(auth_bytes=token), version, timeout_s)
            if answer.error_code:
                text = answer.error_message or f"the login by {exchange.mechanism} is refused"
                raise KafkaError(ErrorCode(answer.error_code), f"{self.address}: {text}")
            try:
                token = exchange.respond(bytes(answer.auth_bytes))
            except AuthenticationError as error:
                raise KafkaError(error.code, f"{self.address}: {error.message}") from error
            lifetime_ms = answer.session_lifetime_ms
        if not exchange.complete:
            text = f"{self.address}: the login by {exchange.mechanism} does not end"
            raise KafkaError(ErrorCode.SASL_AUTHENTICATION_FAILED, text)
        self._begin_login, self._login_timeout_s = begin, timeout_s
        if lifetime_ms > 0 and self._error is None:
            after_s = lifetime_ms / 1000 * random.uniform(RENEWED_FROM, RENEWED_UNTIL)
            self._renewal_timer = asyncio.get_running_loop().call_later(after_s, self._begin_renewal)

    async def _asked(self, message: Any, version: int, timeout_s: float) -> Any:
        """Ask for a step of the login, past what waits for it."""
        spec: ApiSpec = APIS[message.API_KEY]
        correlation_id = self._next_correlation_id()
        answer: asyncio.Future[memoryview] = asyncio.get_running_loop().create_future()
        data = encode_request(message, version, correlation_id, self._client_id)
        await self._may_write()
        self._write(data, (correlation_id, answer))
        async with asyncio.timeout(timeout_s):
            frame = await answer
        return read_response(spec.response, frame, spec.key, version)[1]

    def _begin_renewal(self) -> None:
        self._renewal_timer = None
        if self._error is None:
            self._renewal = supervise(
                self._renew(),
                name="renew a login",
                serves=f"the connection to {self.address}",
                failed=self._cannot_renew,
            )

    async def _renew(self) -> None:
        """Renew the login; where that fails the connection ends, and the next one says why."""
        assert self._begin_login is not None
        try:
            async with asyncio.timeout(self._login_timeout_s):  # what asks for a token may wait for anything
                await self._log_in(self._begin_login, self._login_timeout_s)
        except (OSError, WireError, KafkaError) as error:
            self._fail(error if isinstance(error, KafkaError) else network_error(self.address, error))
        self._renewal = None
        posted, self._posted = self._posted, []
        for encode, answer in posted:
            if self._error is None:
                self.post(encode, answer)
            elif not answer.done():
                answer.set_exception(self._error_now())

    def _cannot_renew(self, error: BaseException) -> None:
        """End the connection where a mechanism has raised anything else: what waits for the renewal hears of it."""
        self._renewal = None
        self._fail(network_error(self.address, f"the login could not be renewed: {error}"))
        posted, self._posted = self._posted, []
        for _, answer in posted:
            if not answer.done():
                answer.set_exception(self._error_now())

    def close(self) -> None:
        """Close at once; what waits for an answer fails."""
        self._fail(network_error(self.address, "was left: the connection is closed"))

    def _fail(self, error: KafkaError) -> None:
        if self._error is not None:
            return
        self._error = error
        self._ended.set_result(None)
        self._writable.set()
        if self._renewal_timer is not None:
            self._renewal_timer.cancel()
        if self._renewal is not None and self._renewal is not asyncio.current_task():
            self._renewal.cancel()
        if self._frames is not None:
            self._frames.transport.abort()
        posted, self._posted = self._posted, []
        for _, answer in (*self._waiting, *posted):
            if not answer.done():
                answer.set_exception(self._error_now())
        self._waiting.clear()

    def _error_now(self) -> KafkaError:
        """Return the error afresh, since one exception object must not be raised in several places."""
        assert self._error is not None
        return KafkaError(self._error.code, self._error.message)

    # -- FrameReceiver

    def connection_opened(self, frames: FrameProtocol) -> None:
        """Take the open transport."""
        self._frames = frames

    def frame_received(self, frame: memoryview) -> None:
        """Give an answer to the oldest request that waits."""
        if not self._waiting or len(frame) < 4:
            self._fail(network_error(self.address, "sent an answer to nothing that was asked"))
            return
        correlation_id, answer = self._waiting.popleft()
        if int.from_bytes(frame[:4], "big") != correlation_id:
            error = network_error(self.address, f"answered out of order: {correlation_id} was next")
            if not answer.done():
                answer.set_exception(error)
            self._fail(error)
        elif not answer.done():
            answer.set_result(frame)

    def batch_ended(self) -> None:
        """Need nothing: each answer wakes its own request."""

    def frame_refused(self, error: WireError) -> None:
        """End the connection: its stream is not Kafka's protocol."""
        self._fail(network_error(self.address, f"does not speak Kafka's protocol: {error}"))

    def writing_paused(self) -> None:
        """Hold further requests back."""
        self._writable.clear()

    def writing_resumed(self) -> None:
        """Let requests go again."""
        self._writable.set()

    def connection_closed(self, error: Exception | None) -> None:
        """Fail what waits."""
        self._fail(network_error(self.address, error if isinstance(error, OSError) else self._closed_why()))

    def _closed_why(self) -> str:
        if self._versions or self._is_secured:
            return "closed the connection"
        return "closed the connection at the first request: does it speak TLS (security.protocol)?"
