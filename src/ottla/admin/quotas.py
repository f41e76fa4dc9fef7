"""Quotas of users, clients and addresses (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.admin.errors import raise_code

if TYPE_CHECKING:
    from ottla.client import BlockingClient

__all__ = ["CLIENT_QUOTAS", "CONNECTION_QUOTAS", "ClientQuota", "QuotaChange", "alter_quotas", "describe_quotas"]

CLIENT_QUOTAS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
"""What users and clients are held to: bytes per second, percent of a thread's time, and changes per second."""
CONNECTION_QUOTAS = ("connection_creation_rate",)
"""What addresses are held to: connections per second (KIP-612)."""
KINDS = ("user", "client-id", "ip")
EXACT, DEFAULT, ANY = 0, 1, 2


@dataclass(frozen=True)
class ClientQuota:
    """The quotas of one entity: of kinds of it (`user`, `client-id`, `ip`), each by name, None the kind's default."""

    entity: Mapping[str, str | None]
    values: Mapping[str, float]


@dataclass(frozen=True)
class QuotaChange:
    """Quotas that `alter_quotas` sets for one entity, and those that it drops; the name None is a kind's default."""

    entity: Mapping[str, str | None]
    added: Mapping[str, float] = field(default_factory=dict)
    deleted: tuple[str, ...] = ()


def describe_quotas(client: BlockingClient, wanted: Mapping[str, str | None]) -> list[ClientQuota]:
    """Return the quotas of entities of exactly these kinds, sorted by name, defaults last.

    `wanted` has a name by kind: "" is the default of the kind, None any of it. Raises KafkaError in the broker's words.
    """
    from ottla.wire.messages.describe_client_quotas import ComponentData, DescribeClientQuotasRequest

    components = [
        ComponentData(
            entity_type=kind, match_type=ANY if name is None else EXACT if name else DEFAULT, match=name or None
        )
        for kind, name in wanted.items()
    ]
    response = client.request(DescribeClientQuotasRequest(components=components, strict=True))
    raise_code(response.error_code, response.error_message)
    found = []
    for entry in response.entries or ():
        named = {each.entity_type: each.entity_name for each in entry.entity}
        values = sorted((each.key, each.value) for each in entry.values)
        found.append(ClientQuota({kind: named[kind] for kind in KINDS if kind in named}, dict(values)))
    return sorted(found, key=lambda each: [(name is None, name or "") for name in each.entity.values()])


def alter_quotas(client: BlockingClient, change: QuotaChange, *, validate_only: bool = False) -> None:
    """Set and drop an entity's quotas, or have that checked; raises KafkaError in the controller's words."""
    from ottla.wire.messages.alter_client_quotas import (
        AlterClientQuotasRequest,
        EntityData,
        OpData,
        RequestEntryData,
    )

    entry = RequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in change.entity.items()],
        ops=[
            *(OpData(key=key, value=value, remove=False) for key, value in change.added.items()),
            *(OpData(key=key, value=0.0, remove=True) for key in change.deleted),
        ],
    )
    response = client.request(AlterClientQuotasRequest(entries=[entry], validate_only=validate_only))
    for result in response.entries:
        raise_code(result.error_code, result.error_message)
