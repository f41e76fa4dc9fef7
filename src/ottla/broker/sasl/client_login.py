"""Who stands between a SASL listener's connections and the router until somebody has logged in (KIP-43, 152, 368).

What a connection may send and when is `LoginGate`'s to say; here its requests are read and answered. Whoever has logged in
without an end is handed over to the router and costs nothing more. A login with an end is looked at before each request,
or once for the requests of one read that are taken together.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

from ottla.background import count_failure, supervise
from ottla.base import Clock, KafkaError, WireError
from ottla.broker.requests.authentication_counts import AuthenticationCounts
from ottla.broker.requests.connection import Connection, Pending, RequestSink
from ottla.broker.sasl.pending_logins import PendingLogins
from ottla.broker.sasl.waiting_exchanges import WaitingExchanges
from ottla.config import BrokerSettings
from ottla.security.sasl import AuthenticationError, LoginGate, LoginStep, ServerExchange
from ottla.wire import ApiKey, RequestHeader, decode, encode_response, read_request_header
from ottla.wire.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from ottla.wire.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse

__all__ = ["LoginDoor"]

log = logging.getLogger(__name__)

SASL_HANDSHAKE, API_VERSIONS, SASL_AUTHENTICATE = (
    int(each) for each in (ApiKey.SASL_HANDSHAKE, ApiKey.API_VERSIONS, ApiKey.SASL_AUTHENTICATE)
)
HANDSHAKE_KEY = SASL_HANDSHAKE.to_bytes(2, "big")
FAILED = "Closing the connection: its login has failed"
API_KEY_BYTES = 2
LENGTH_BYTES = 4


class LoginDoor:
    """Takes in the connections of one listener; `router` serves who has logged in."""

    def __init__(
        self,
        router: RequestSink,
        exchanges: Mapping[str, Callable[[], ServerExchange]],
        *,
        listener: str,
        max_reauth_ms: Mapping[str, int],
        frame_bytes_max: int,
        settings: Callable[[], BrokerSettings],
        versions_answered: Callable[[memoryview], bool],
        pending: PendingLogins,
        waiting: WaitingExchanges,
        counts: AuthenticationCounts,
        clock: Clock,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        """`versions_answered` says of an ApiVersions request whether it is answered without an error."""
        self.router = router
        self.exchanges = exchanges
        self.listener = listener
        self.max_reauth_ms = max_reauth_ms
        self.frame_bytes_max = frame_bytes_max
        self.settings = settings
        self.versions_answered = versions_answered
        self.pending = pending
        self.waiting = waiting
        self.counts = counts
        self.clock = clock
        self.loop = loop

    def opened(self, connection: Connection) -> bool:
        """Count a connection, and ask it for its login; False refuses it."""
        if not self.router.opened(connection):
            return False
        connection.frames.limit(self.frame_bytes_max)
        connection.hand_over(_ClientLogin(self))
        self.pending.add(connection)
        return True

    def closed(self, connection: Connection) -> None:
        """Forget a connection that was refused."""
        self.router.closed(connection)

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Handle nothing: whoever was taken in is handed over."""
        raise AssertionError("a connection that was refused has sent a request")

    def held_back(self, frame: memoryview, seconds: float) -> None:
        """Nothing is held back here."""


class _ClientLogin:
    """The login of one connection."""

    __slots__ = ("_began_ms", "_door", "_gate", "_is_first")

    def __init__(self, door: LoginDoor) -> None:
        self._door = door
        self._gate = LoginGate(door.exchanges, max_reauth_ms=door.max_reauth_ms)
        self._is_first = True
        """Until it has logged in once; what comes then renews that."""
        self._began_ms = 0

    def held_back(self, frame: memoryview, seconds: float) -> None:
        """Pass it on."""
        self._door.router.held_back(frame, seconds)

    def opened(self, connection: Connection) -> bool:
        """Refuse: a connection opens once."""
        return False

    def closed(self, connection: Connection) -> None:
        """Forget a connection."""
        self._door.pending.remove(connection)
        self._door.router.closed(connection)

    def handle(self, connection: Connection, frame: memoryview) -> None:
        """Answer what belongs to a login, pass on what comes after it; whatever else comes closes the connection."""
        try:
            self._handle(connection, frame)
        except WireError as error:
            connection.complain(error)
            connection.close()
        except Exception:  # our own mistake: it is said, and costs this connection only
            log.exception(FAILED)
            count_failure("logins")
            connection.close()

    def _is_open(self) -> bool:
        """Return whether a request that is no part of a login may be handled now."""
        gate = self._gate
        if gate.step is not LoginStep.OPEN or gate.session is None:
            return False
        return not gate.session.has_expired(self._door.clock.now_ms(), self._steady_ms())

    def _steady_ms(self) -> int:
        return int(self._door.loop.time() * 1000)

    def _handle(self, connection: Connection, frame: memoryview) -> None:
        gate, now_ms = self._gate, self._door.clock.now_ms()
        if gate.step is LoginStep.CLOSED:
            return  # its answer is on the way
        if gate.step is LoginStep.BARE_TOKENS:
            self._take_bare_token(connection, bytes(frame), now_ms)
            return
        api_key = int.from_bytes(frame[:API_KEY_BYTES], "big")
        if not gate.admits(api_key, now_ms, self._steady_ms()):
            self._refuse_unparsed(api_key)
        if api_key == SASL_HANDSHAKE:
            self._shake_hands(connection, frame, now_ms)
        elif api_key == SASL_AUTHENTICATE and gate.step is LoginStep.TOKENS:
            self._take_token(connection, frame, now_ms)
        else:
            if gate.step is LoginStep.FIRST and self._door.versions_answered(frame):
                gate.versions_answered()
            self._door.router.handle(connection, frame)

    def _refuse_unparsed(self, api_key: int) -> None:
        """Raise the WireError that closes the connection."""
        if self._gate.step is LoginStep.OPEN:
            self._door.counts.expired_killed += 1
            raise WireError("its login has ended and was not renewed")
        raise WireError(f"API {api_key} came before the login, where {self._gate.step.value} was due")

    # -- the two requests, and tokens without one

    def _shake_hands(self, connection: Connection, frame: memoryview, now_ms: int) -> None:
        header, position = self._read(frame, SaslHandshakeRequest)
        request, _ = decode(SaslHandshakeRequest, frame, header.api_version, position)
        try:
            self._began_ms = now_ms
            self._gate.handshake(request.mechanism, header.api_version, now_ms, self._steady_ms())
        except KafkaError as error:
            response = SaslHandshakeResponse(error_code=int(error.code), mechanisms=list(self._door.exchanges))
            self._answer_error(connection, _encoded(response, header), error)
            return
        connection.answer((_encoded(SaslHandshakeResponse(mechanisms=list(self._door.exchanges)), header),))

    def _take_token(self, connection: Connection, frame: memoryview, now_ms: int) -> None:
        header, position = self._read(frame, SaslAuthenticateRequest)
        request, _ = decode(SaslAuthenticateRequest, frame, header.api_version, position)
        self._respond(connection, bytes(request.auth_bytes), _InRequest(header), now_ms)

    def _take_bare_token(self, connection: Connection, token: bytes, now_ms: int) -> None:
        self._respond(connection, token, _Bare(), now_ms)

    def _respond(self, connection: Connection, token: bytes, form: _InRequest | _Bare, now_ms: int) -> None:
        exchange = self._gate.waiting
        if exchange is not None:
            place = Pending(len(token), pipelines=False)
            connection.wait_for(place)
            work = self._respond_later(connection, exchange, token, form, place)
            place.task = supervise(work, name="log in", serves="a connection", loop=self._door.loop)
            return
        try:
            answer, lifetime_ms = self._gate.respond(token, now_ms, self._steady_ms())
        except KafkaError as error:
            self._answer_error(connection, form.refusal(error), error)
            return
        self._look(connection, now_ms)
        connection.answer((form.answer(answer, lifetime_ms),))

    async def _respond_later(
        self,
        connection: Connection,
        exchange: ServerExchange,
        token: bytes,
        form: _InRequest | _Bare,
        place: Pending,
    ) -> None:
        """Answer a token whose exchange may wait; the connection's next request is held back meanwhile."""
        try:
            try:
                answer = await self._door.waiting.respond(exchange, token)
                now_ms = self._door.clock.now_ms()
                lifetime_ms = self._gate.responded(now_ms, self._steady_ms())
            except KafkaError as error:
                self._answer_error(connection, form.refusal(error), self._gate.refused(error), place)
                return
            self._look(connection, now_ms)
            connection.settle(place, (form.answer(answer, lifetime_ms),))
        except Exception:  # our own mistake: it is said, and costs this connection only
            log.exception(FAILED)
            count_failure("logins")
            connection.close()

    def _read(
        self, frame: memoryview, request: type[SaslHandshakeRequest] | type[SaslAuthenticateRequest]
    ) -> tuple[RequestHeader, int]:
        """Return a request's header, and where its body begins; raises WireError where it cannot be served."""
        if len(frame) > self._door.frame_bytes_max:
            raise WireError(f"{request.__name__} has {len(frame)} bytes, more than {self._door.frame_bytes_max}")
        header, position = read_request_header(frame)
        lowest, highest = request.VERSIONS
        if not lowest <= header.api_version <= highest:
            raise WireError(f"{request.__name__} version {header.api_version} is not served: {lowest} to {highest} are")
        return header, position

    # -- how it ends

    def _look(self, connection: Connection, now_ms: int) -> None:
        """Take in a login that is complete; one without an end needs nobody here any more."""
        gate, door = self._gate, self._door
        if gate.step is not LoginStep.OPEN:
            return
        assert gate.session is not None
        found = gate.session.logged_in
        connection.logged_in(f"User:{found.user}", by_token=found.token_authenticated)
        if self._is_first:
            self._is_first = False
            door.counts.succeeded[door.listener] += 1
            door.pending.remove(connection)
            connection.frames.limit(door.settings().socket_request_max_bytes)
        else:
            door.counts.renewed[door.listener] += 1
            door.counts.renewal_ms.record(max(0, now_ms - self._began_ms))
        if gate.session.lifetime_ms:
            connection.pass_on(door.router, self._is_open)
        else:
            connection.hand_over(door.router)

    def _answer_error(
        self, connection: Connection, answer: bytes, error: KafkaError, place: Pending | None = None
    ) -> None:
        """Answer, and close unless the login may go on; both a while later, so that guessing takes time.

        `place` is the answer's, where it has been waited for.
        """
        if self._gate.step is not LoginStep.CLOSED:
            connection.answer((answer,))
            return
        door = self._door
        (door.counts.failed if self._is_first else door.counts.not_renewed)[door.listener] += 1
        connection.complain(error.reason if isinstance(error, AuthenticationError) else error.message)
        if place is None:
            place = Pending(0, pipelines=False)
            connection.wait_for(place)
        place.task = None

        def end(place: Pending) -> None:
            connection.settle(place, (answer,) if answer else ())
            connection.close()

        delay_s = door.settings().connection_failed_authentication_delay_ms / 1000
        place.give_up = door.loop.call_later(delay_s, end, place).cancel


class _InRequest:
    """How a token's answer is sent in the answer to its SaslAuthenticate."""

    def __init__(self, header: RequestHeader) -> None:
        self._header = header

    def answer(self, token: bytes, lifetime_ms: int) -> bytes:
        response = SaslAuthenticateResponse(error_message=None, auth_bytes=token, session_lifetime_ms=lifetime_ms)
        return _encoded(response, self._header)

    def refusal(self, error: KafkaError) -> bytes:
        response = SaslAuthenticateResponse(error_code=int(error.code), error_message=error.message)
        return _encoded(response, self._header)


class _Bare:
    """How it is sent without a request around it, where a refusal has no words."""

    def answer(self, token: bytes, lifetime_ms: int) -> bytes:
        return len(token).to_bytes(LENGTH_BYTES, "big") + token

    def refusal(self, error: KafkaError) -> bytes:
        return b""


def _encoded(response: SaslHandshakeResponse | SaslAuthenticateResponse, header: RequestHeader) -> bytes:
    return encode_response(response, header.api_key, header.api_version, header.correlation_id)
