"""Client quotas: whose limit holds for a client, what it has used of it, and how long it has to wait.

A limit is looked for from the most particular entity to the most general one, and clients that find the same user's or
the same client id's limit use it up together (KIP-13, KIP-55, KIP-599, KIP-612).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from ipaddress import ip_address
from typing import Final, Protocol

from ottla.base import ErrorCode, KafkaError
from ottla.security.rates import SampledRate, TokenBucket, Windows

__all__ = [
    "CLIENT_QUOTAS",
    "IP_QUOTAS",
    "QUOTA_KINDS",
    "ClientQuotas",
    "Entity",
    "Limit",
    "LimitSource",
    "MutationQuota",
    "QuotaKind",
    "QuotaTable",
    "QuotaUse",
]

Entity = tuple[tuple[str, str | None], ...]
"""Who a quota is for: sorted pairs of entity type (`client-id`, `ip`, `user`) and name, None for the type's default."""

METERS_MAX: Final = 10_000
"""Rates that are kept at once: client ids are chosen by clients, who must not be able to fill the memory with them."""


class QuotaKind(Enum):
    """What is limited, under the name of its quota."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


CLIENT_QUOTAS: Final = (QuotaKind.PRODUCE, QuotaKind.FETCH, QuotaKind.REQUEST, QuotaKind.CONTROLLER_MUTATION)
"""Quotas of users and client ids."""
IP_QUOTAS: Final = (QuotaKind.CONNECTION,)
"""Quotas of addresses."""
QUOTA_KINDS: dict[str, QuotaKind] = {kind.value: kind for kind in QuotaKind}
"""Kinds by the name of their quota."""


@dataclass(frozen=True, slots=True)
class Limit:
    """A limit per second and the user and client id that share it, "" where it does not depend on one."""

    bound: float
    user: str
    client_id: str


class LimitSource(Protocol):
    """Who says instead of the table what limits a client."""

    def limit(self, kind: QuotaKind, user: str, client_id: str) -> Limit | None:
        """Return the limit, and by what its use is counted."""
        ...

    def configure(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Hear of the quotas that are set."""
        ...


class QuotaTable:
    """The quotas that are set, by kind and entity."""

    def __init__(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        self._limits: dict[QuotaKind, dict[Entity, float]] = {kind: {} for kind in QuotaKind}
        for entity, values in quotas.items():
            for name, value in values.items():
                kind = QUOTA_KINDS.get(name)
                if kind is QuotaKind.CONNECTION:
                    self._limits[kind][_written_one_way(entity)] = value
                elif kind is not None:
                    self._limits[kind][entity] = value

    @property
    def has_client_quotas(self) -> bool:
        """True where some user or client id has a quota."""
        return any(self._limits[kind] for kind in CLIENT_QUOTAS)

    @property
    def has_ip_quotas(self) -> bool:
        """True where some address has a quota."""
        return any(self._limits[kind] for kind in IP_QUOTAS)

    def of_client(self, kind: QuotaKind, user: str, client_id: str) -> Limit | None:
        """Return the limit of a user's client, and who shares it."""
        limits = self._limits[kind]
        if not limits:
            return None
        for entity, shared_by in _most_particular_first(user, client_id):
            bound = limits.get(entity)
            if bound is not None:
                return Limit(bound, *shared_by)
        return None

    def of_ip(self, address: str) -> float | None:
        """Return how many connections per second an address may open."""
        limits = self._limits[QuotaKind.CONNECTION]
        return limits.get((("ip", address),), limits.get((("ip", None),)))


def _written_one_way(entity: Entity) -> Entity:
    """Return an address's entity as systems write the address: version 6 has many ways.

    A host's name, which a folder of Kafka's may have, stays as it is and is never met.
    """
    try:
        return tuple((kind, None if name is None else str(ip_address(name))) for kind, name in entity)
    except ValueError:
        return entity


def _most_particular_first(user: str, client_id: str) -> Iterator[tuple[Entity, tuple[str, str]]]:
    """Yield the entities that a client belongs to in Kafka's order, each with the user and client id that share it."""
    both, alone, any_user = (user, client_id), (user, ""), ("", client_id)
    yield (("client-id", client_id), ("user", user)), both
    yield (("client-id", None), ("user", user)), both
    yield (("user", user),), alone
    yield (("client-id", client_id), ("user", None)), both
    yield (("client-id", None), ("user", None)), both
    yield (("user", None),), alone
    yield (("client-id", client_id),), any_user
    yield (("client-id", None),), any_user


@dataclass(frozen=True, slots=True)
class QuotaUse:
    """What is used of a quota now, per second."""

    kind: QuotaKind
    user: str
    client_id: str
    rate: float
    bound: float


class _Meter:
    """What has been used of one limit."""

    __slots__ = ("bound", "bucket", "rate")

    def __init__(self, bound: float, windows: Windows, *, in_bursts: bool) -> None:
        self.bound = bound
        self.rate = SampledRate(windows)
        self.bucket = TokenBucket(windows) if in_bursts else None

    def is_idle(self, now_ms: int) -> bool:
        """True where it can be forgotten."""
        return self.rate.is_idle(now_ms) and (self.bucket is None or self.bucket.is_idle(now_ms))


class ClientQuotas:
    """The one owner of what clients have used of their quotas on this node; times are milliseconds of any clock."""

    def __init__(
        self,
        windows: Windows | None = None,
        *,
        controller_windows: Windows | None = None,
        source: LimitSource | None = None,
    ) -> None:
        self._source = source
        self._windows = windows or Windows()
        self._controller_windows = controller_windows or Windows()
        self._table = QuotaTable({})
        self._meters: dict[tuple[QuotaKind, str, str], _Meter] = {}
        self._resolved: dict[QuotaKind, dict[tuple[str, str], _Meter | None]] = {kind: {} for kind in QuotaKind}
        """What clients were found to be limited by; a request costs one look into it."""
        self._produce = self._resolved[QuotaKind.PRODUCE]
        self._fetch = self._resolved[QuotaKind.FETCH]
        self._request = self._resolved[QuotaKind.REQUEST]

    @property
    def table(self) -> QuotaTable:
        """The quotas that are set now."""
        return self._table

    @property
    def limits_clients(self) -> bool:
        """True where some user or client id may have a limit."""
        return self._source is not None or self._table.has_client_quotas

    def configure(self, quotas: Mapping[Entity, Mapping[str, float]]) -> None:
        """Take over quotas; what was used of those that stay counts on."""
        self._table = QuotaTable(quotas)
        self._forget_resolved()
        if self._source is not None:
            self._source.configure(quotas)
        elif not quotas:
            self._meters.clear()

    def charge(self, kind: QuotaKind, user: str, client_id: str, amount: float, now_ms: int) -> int:
        """Count what a client has used; returns for how many milliseconds it must be kept waiting.

        Request time is in percent of a processor, and nobody waits longer than a window for it; the rest is unbounded.
        """
        meter = self._meter(kind, user, client_id, now_ms)
        if meter is None:
            return 0
        meter.rate.record(amount, now_ms)
        wait_ms = meter.rate.throttle_ms(meter.bound, now_ms)
        if wait_ms and kind is QuotaKind.REQUEST:
            return min(wait_ms, self._windows.size_ms)
        return wait_ms

    def bounds(self, user: str, client_id: str, now_ms: int) -> tuple[float | None, ...]:
        """Return the limits of a client, by kind of `CLIENT_QUOTAS`; None where there is none."""
        meters = [self._meter(kind, user, client_id, now_ms) for kind in CLIENT_QUOTAS]
        return tuple(None if meter is None else meter.bound for meter in meters)

    def wait_ms(self, user: str, client_id: str, now_ms: int) -> int:
        """Return for how many milliseconds a client has to wait by what it has used of its limits as they are now."""
        waits = [0]
        for kind in CLIENT_QUOTAS:
            meter = self._meter(kind, user, client_id, now_ms)
            if meter is None:
                continue
            if meter.bucket is not None:
                waits.append(meter.bucket.throttle_ms(meter.bound, now_ms))
            elif kind is QuotaKind.REQUEST:
                waits.append(min(meter.rate.throttle_ms(meter.bound, now_ms), self._windows.size_ms))
            else:
                waits.append(meter.rate.throttle_ms(meter.bound, now_ms))
        return max(waits)

    def take_back(self, kind: QuotaKind, user: str, client_id: str, amount: float, now_ms: int) -> None:
        """Count no longer what was charged and then not given."""
        meter = self._meter(kind, user, client_id, now_ms)
        if meter is not None:
            meter.rate.record(-amount, now_ms)

    def bytes_per_span(self, kind: QuotaKind, user: str, client_id: str, now_ms: int) -> int | None:
        """Return how many bytes fit in a rate's whole time: more than that is never handed out at once."""
        meter = self._meter(kind, user, client_id, now_ms)
        if meter is None:
            return None
        return int(meter.bound * (self._windows.count - 1) * self._windows.size_ms / 1000)

    def connection_opened(self, address: str, now_ms: int) -> int:
        """Count a connection; above 0 it is one too many, is not counted, and has to wait so many milliseconds."""
        bound = self._table.of_ip(address)
        if bound is None:
            return 0
        meter = self._kept((QuotaKind.CONNECTION, address, ""), bound, now_ms)
        meter.rate.record(1, now_ms)
        wait_ms = meter.rate.throttle_ms(bound, now_ms)
        if wait_ms > 0:
            meter.rate.record(-1, now_ms)
        return min(wait_ms, self._windows.size_ms)

    def mutations(self, user: str, client_id: str, now_ms: int, *, strict: bool) -> MutationQuota | None:
        """Return what one request may change in the metadata; None where that is not limited."""
        meter = self._meter(QuotaKind.CONTROLLER_MUTATION, user, client_id, now_ms)
        return None if meter is None else MutationQuota(meter, now_ms, strict=strict)

    def used(self, now_ms: int) -> Iterator[QuotaUse]:
        """Yield what is used of every limit that somebody has used lately."""
        for (kind, user, client_id), meter in self._meters.items():
            yield QuotaUse(kind, user, client_id, meter.rate.per_second(now_ms), meter.bound)

    def _forget_resolved(self) -> None:
        for each in self._resolved.values():
            each.clear()

    def _meter(self, kind: QuotaKind, user: str, client_id: str, now_ms: int) -> _Meter | None:
        if self._source is not None:
            given = self._source.limit(kind, user, client_id)
            return None if given is None else self._kept((kind, given.user, given.client_id), given.bound, now_ms)
        if kind is QuotaKind.PRODUCE:
            resolved = self._produce
        elif kind is QuotaKind.REQUEST:
            resolved = self._request
        else:  # hashing a member of an enumeration is slow, so the frequent ones do without
            resolved = self._fetch if kind is QuotaKind.FETCH else self._resolved[kind]
        client = (user, client_id)
        if client in resolved:
            return resolved[client]
        if len(resolved) >= METERS_MAX:
            self._forget_resolved()
        limit = self._table.of_client(kind, user, client_id)
        meter = None
        if limit is not None:
            meter = self._kept((kind, limit.user, limit.client_id), limit.bound, now_ms)
        resolved[client] = meter
        return meter

    def _kept(self, key: tuple[QuotaKind, str, str], bound: float, now_ms: int) -> _Meter:
        meter = self._meters.get(key)
        if meter is None:
            if len(self._meters) >= METERS_MAX:
                self._make_room(now_ms)
            in_bursts = key[0] is QuotaKind.CONTROLLER_MUTATION
            windows = self._controller_windows if in_bursts else self._windows
            self._meters[key] = meter = _Meter(bound, windows, in_bursts=in_bursts)
        meter.bound = bound
        return meter

    def _make_room(self, now_ms: int) -> None:
        """Forget what is idle, and where nothing is, the older half."""
        kept = {key: meter for key, meter in self._meters.items() if not meter.is_idle(now_ms)}
        if len(kept) >= METERS_MAX:
            kept = dict(list(kept.items())[METERS_MAX // 2 :])
        self._meters = kept
        self._forget_resolved()


class MutationQuota:
    """What one request may create or delete, counted in partitions (KIP-599).

    A strict one refuses what comes while the bucket is overdrawn, for clients that understand it; others are answered
    and kept waiting afterwards.
    """

    def __init__(self, meter: _Meter, now_ms: int, *, strict: bool) -> None:
        self._meter = meter
        self._now_ms = now_ms
        self._strict = strict
        self.throttle_ms = 0
        """How long the client has to wait after what it was charged."""

    def charge(self, partitions: int) -> None:
        """Count partitions; raises THROTTLING_QUOTA_EXCEEDED where they have to wait."""
        bucket, bound, now_ms = self._meter.bucket, self._meter.bound, self._now_ms
        assert bucket is not None
        if self._strict:
            self.throttle_ms = max(self.throttle_ms, bucket.throttle_ms(bound, now_ms))
            if self.throttle_ms > 0:
                raise KafkaError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, "The throttling quota has been exceeded.")
        bucket.take(partitions, bound, now_ms)
        self._meter.rate.record(partitions, now_ms)
        if not self._strict:
            self.throttle_ms = bucket.throttle_ms(bound, now_ms)
