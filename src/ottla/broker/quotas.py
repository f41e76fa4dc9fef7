"""Client quotas as they are now: follows the image, charges requests, and says for how long their clients wait.

`Services.quotas` is this where some user or client id has a quota, and None where nobody has: that is all that requests
pay for quotas that are not used.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Sequence
from time import perf_counter_ns
from typing import Any, Final

from ottla.broker.policies import QUOTA_CALLBACK
from ottla.broker.requests.connection import Connection
from ottla.broker.requests.handler import RequestContext
from ottla.broker.requests.line_rate import LineRate
from ottla.config import BrokerSettings
from ottla.metadata import ClusterView, Delta, Image
from ottla.security import CalledBack, ClientQuotas, MutationQuota, QuotaCallback, QuotaKind, SampledRate, Windows

__all__ = ["Quotas"]

log = logging.getLogger(__name__)
log.addFilter(LineRate(10))

NS_PER_PERCENT: Final = 10_000_000
"""Nanoseconds of one processor in a second, by percent."""
MS_PER_S: Final = 1000
SLOWEST_RATE: Final = 0.001
"""Connections per second where `max.connection.creation.rate` is 0: next to none."""


class Quotas:
    """Charges clients for what they do; times are those of the event loop."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, settings: BrokerSettings, callback: QuotaCallback | None = None
    ) -> None:
        self._loop = loop
        windows = Windows(settings.quota_window_num, settings.quota_window_size_seconds * MS_PER_S)
        controller = Windows(
            settings.controller_quota_window_num, settings.controller_quota_window_size_seconds * MS_PER_S
        )
        self._callback = callback
        self._called_back = None if self._callback is None else CalledBack(self._callback, _callback_failed)
        self.clients = ClientQuotas(windows, controller_windows=controller, source=self._called_back)
        self._connections = SampledRate(windows)
        self.throttled: dict[QuotaKind, int] = dict.fromkeys(QuotaKind, 0)
        """How often each kind of quota has made a client wait."""

    def image_changed(self, image: Image, delta: Delta, connections: Iterable[Connection] = ()) -> None:
        """Take over the quotas that the image has; `connections` that wait by what is no limit any more wait no longer."""
        if delta.quotas_changed:
            now_ms = self.now_ms()
            waiting = [(each, each.muted_client) for each in connections if each.muted_client is not None]
            before = [self.clients.bounds(*client, now_ms) for _, client in waiting]
            self.clients.configure(image.client_quotas)
            for (connection, client), bounds in zip(waiting, before, strict=True):
                if _are_wider(self.clients.bounds(*client, now_ms), bounds):
                    connection.mute_at_most(self.clients.wait_ms(*client, now_ms))
        changed = delta.topics_changed or delta.topics_deleted or delta.brokers_changed
        if self._called_back is not None and changed:
            self._called_back.cluster_changed(ClusterView(image))

    def close(self) -> None:
        """Let a callback go."""
        close = getattr(self._callback, "close", None)
        if close is not None:
            try:
                close()
            except Exception as error:  # another's code: the node stops all the same
                _callback_failed("it was not closed", error)

    def client_of(self, context: RequestContext[Any]) -> tuple[str, str]:
        """Return the user and client id that quotas go by."""
        return _client(context)

    def now_ms(self) -> int:
        """Return the loop's time."""
        return int(self._loop.time() * MS_PER_S)

    def produced(self, context: RequestContext[Any], *, answers: bool = True) -> int:
        """Charge a Produce for its bytes, and for time where it is answered; returns milliseconds to wait."""
        user, client_id = _client(context)
        now_ms = self.now_ms()
        wait_ms = self._charge(QuotaKind.PRODUCE, user, client_id, context.request_bytes, now_ms)
        if not answers:
            return wait_ms
        return max(wait_ms, self._charge(QuotaKind.REQUEST, user, client_id, _worked_percent(context), now_ms))

    def fetched(self, context: RequestContext[Any], size: int) -> int:
        """Charge a Fetch for the bytes of its answer and for time; where it has to wait, the bytes are not sent."""
        user, client_id = _client(context)
        now_ms = self.now_ms()
        wait_ms = self._charge(QuotaKind.FETCH, user, client_id, size, now_ms)
        wait_ms = max(wait_ms, self._charge(QuotaKind.REQUEST, user, client_id, _worked_percent(context), now_ms))
        if wait_ms > 0:
            self.clients.take_back(QuotaKind.FETCH, user, client_id, size, now_ms)
        return wait_ms

    def fetch_bytes_max(self, context: RequestContext[Any]) -> int | None:
        """Return how large an answer may be so that the client can have it at all."""
        return self.clients.bytes_per_span(QuotaKind.FETCH, *_client(context), self.now_ms())

    def worked(self, context: RequestContext[Any]) -> int:
        """Charge a request for the time of its handling, until now or until its answer had to be waited for."""
        return self._charge(QuotaKind.REQUEST, *_client(context), _worked_percent(context), self.now_ms())

    def mutations(self, context: RequestContext[Any], *, strict: bool) -> MutationQuota | None:
        """Return what a request may change in the metadata; None where that is not limited."""
        return self.clients.mutations(*_client(context), self.now_ms(), strict=strict)

    def connection_opened(self, address: str) -> int:
        """Count a connection; above 0 it is one too many and is closed after so many milliseconds."""
        if not self.clients.table.has_ip_quotas:
            return 0
        return self._counted(QuotaKind.CONNECTION, self.clients.connection_opened(address, self.now_ms()))

    def connection_held_back(self, rate_max: int) -> int:
        """Count a connection of the whole broker; returns for how many milliseconds nothing is read from it (KIP-612)."""
        now_ms = self.now_ms()
        self._connections.record(1, now_ms)
        return self._connections.throttle_ms(max(rate_max, SLOWEST_RATE), now_ms)

    def _charge(self, kind: QuotaKind, user: str, client_id: str, amount: float, now_ms: int) -> int:
        wait_ms = self.clients.charge(kind, user, client_id, amount, now_ms)
        return self._counted(kind, wait_ms) if wait_ms > 0 else 0

    def _counted(self, kind: QuotaKind, wait_ms: int) -> int:
        if wait_ms > 0:
            self.throttled[kind] += 1
        return wait_ms


def _callback_failed(what: str, error: Exception) -> None:
    log.error("%s has failed and %s: %s: %s", QUOTA_CALLBACK, what, type(error).__name__, error)


def _are_wider(now: Sequence[float | None], before: Sequence[float | None]) -> bool:
    """Return whether any limit is gone, or higher than it was."""
    pairs = zip(now, before, strict=True)
    return any(was is not None and (bound is None or bound > was) for bound, was in pairs)


def _client(context: RequestContext[Any]) -> tuple[str, str]:
    """Return the user and client id that quotas go by."""
    return context.connected.principal.partition(":")[2], context.client_id or ""


def _worked_percent(context: RequestContext[Any]) -> float:
    """Return what a request has taken of a processor's second, until now or until its answer had to be waited for."""
    worked_ns = context.worked_ns if context.worked_ns >= 0 else perf_counter_ns() - context.started_ns
    return worked_ns / NS_PER_PERCENT
