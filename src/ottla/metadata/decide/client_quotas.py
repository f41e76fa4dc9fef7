"""Client quotas: which may be set on what, and which are found by a filter (KIP-546, KIP-612)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from ipaddress import ip_address

from ottla.base import ErrorCode, KafkaError
from ottla.metadata.apply import Record
from ottla.metadata.decide.decision import Decision
from ottla.metadata.image import Image, QuotaEntity
from ottla.security import CLIENT_QUOTAS, IP_QUOTAS, QuotaKind
from ottla.wire.messages.alter_client_quotas import AlterClientQuotasRequest, RequestEntryData
from ottla.wire.messages.client_quota_record import ClientQuotaRecord, EntityData
from ottla.wire.messages.describe_client_quotas import ComponentData

__all__ = ["AlteredQuotas", "alter_client_quotas", "matching_quotas"]

CLIENT_ID, IP, USER = "client-id", "ip", "user"
EXACT, DEFAULT, SPECIFIED = 0, 1, 2
"""How a filter's component matches: this name, the default entity, or any name and the default too."""
INTEGRAL = {
    QuotaKind.PRODUCE: ("a LONG", 2**63 - 1),
    QuotaKind.FETCH: ("a LONG", 2**63 - 1),
    QuotaKind.CONNECTION: ("an INT", 2**31 - 1),
}
"""Quotas that are whole numbers, and the largest."""
FRACTION_MAX = 1e-6
_NOTHING: Mapping[str, float] = {}


@dataclass(frozen=True, slots=True)
class AlteredQuotas:
    """What became of one entity's changes."""

    asked: RequestEntryData
    error: KafkaError | None = None


def alter_client_quotas(image: Image, request: AlterClientQuotasRequest) -> Decision[list[AlteredQuotas]]:
    """Choose the records for these changes; each entity changes as a whole, or fails by itself."""
    records: list[Record] = []
    results: list[AlteredQuotas] = []
    count = Counter(_named(entry) for entry in request.entries)
    for entry in {_named(each): each for each in request.entries}.values():
        try:
            if count[_named(entry)] > 1:
                raise _invalid("An entity must appear at most once in a request.")
            records += _entry_records(image, entry)
            results.append(AlteredQuotas(entry))
        except KafkaError as error:
            results.append(AlteredQuotas(entry, error))
    return Decision(() if request.validate_only else tuple(records), results)


def _named(entry: RequestEntryData) -> frozenset[tuple[str, str | None]]:
    return frozenset((each.entity_type, each.entity_name) for each in entry.entity)


def _entry_records(image: Image, entry: RequestEntryData) -> list[Record]:
    entity = _entity(entry)
    allowed = {kind.value: kind for kind in _kinds_of(entity)}
    old = image.client_quotas.get(entity, _NOTHING)
    parts = [EntityData(entity_type=kind, entity_name=name) for kind, name in entity]
    records: list[Record] = []
    changes = {each.key: None if each.remove else each.value for each in entry.ops}
    if len(changes) < len(entry.ops):
        raise _invalid("A quota key must appear at most once for an entity.")
    for key, value in changes.items():
        if value is None:
            if key in old:
                records.append(ClientQuotaRecord(entity=parts, key=key, value=0.0, remove=True))
            continue
        _validate(allowed, key, value)
        if old.get(key) != value:
            records.append(ClientQuotaRecord(entity=parts, key=key, value=value, remove=False))
    return records


def _entity(entry: RequestEntryData) -> QuotaEntity:
    """Return who the change is for; raises INVALID_REQUEST where there is no such entity."""
    if not entry.entity:
        raise _invalid("Invalid empty client quota entity")
    found: dict[str, str | None] = {}
    for each in entry.entity:
        kind, name = each.entity_type, each.entity_name
        if kind not in (CLIENT_ID, IP, USER):
            raise _invalid(f"Unhandled client quota entity type: {kind}")
        if name == "":
            raise _invalid(f"Empty {kind} not supported")
        found[kind] = name
    return tuple(sorted(found.items()))


def _kinds_of(entity: QuotaEntity) -> Sequence[QuotaKind]:
    """Return the quotas that an entity may have; raises INVALID_REQUEST for a combination that nobody can be."""
    names = dict(entity)
    if IP not in names:
        return CLIENT_QUOTAS
    if len(names) > 1:
        raise _invalid("Invalid quota entity combination, IP entity should not be combined with User or ClientId")
    address = names[IP]
    if address is not None and not _is_address(address):
        raise _invalid(f"{address} is not a valid IP or resolvable host.")
    return IP_QUOTAS


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def _validate(allowed: dict[str, QuotaKind], key: str, value: float) -> None:
    kind = allowed.get(key)
    if kind is None:
        raise _invalid(f"Invalid configuration key {key}")
    if not value > 0:
        raise _invalid(f"Quota {key} must be greater than 0")
    if kind in INTEGRAL:
        name, largest = INTEGRAL[kind]
        if value > largest:
            raise _invalid(f"Proposed value for {key} is too large for {name}.")
        if abs(round(value) - value) > FRACTION_MAX:
            raise _invalid(f"{key} cannot be a fractional value.")


def matching_quotas(
    image: Image, components: Sequence[ComponentData], *, strict: bool
) -> list[tuple[QuotaEntity, dict[str, float]]]:
    """Return the entities that a filter finds and their quotas, sorted; a strict one finds no more particular entities.

    Raises INVALID_REQUEST for a filter that contradicts itself, and UNSUPPORTED_VERSION for an entity type that is not
    known.
    """
    exact: dict[str, str | None] = {}
    any_name: set[str] = set()
    for each in components:
        _take_component(each, exact, any_name)
    kinds = exact.keys() | any_name
    if IP in kinds and len(kinds) > 1:
        raise _invalid(
            "Invalid entity filter component combination. IP filter component should not be used with "
            "user or clientId filter component."
        )
    found = []
    for entity, values in image.client_quotas.items():
        names = dict(entity)
        is_found = any_name <= names.keys() and all(kind in names and names[kind] == exact[kind] for kind in exact)
        if is_found and not (strict and len(names) != len(kinds)):
            found.append((entity, dict(sorted(values.items()))))
    return sorted(found, key=lambda each: [(kind, name or "") for kind, name in each[0]])


def _take_component(component: ComponentData, exact: dict[str, str | None], any_name: set[str]) -> None:
    kind, how, name = component.entity_type, component.match_type, component.match
    if not kind:
        raise _invalid("Invalid empty entity type.")
    if kind in exact or kind in any_name:
        raise _invalid(f"Entity type {kind} cannot appear more than once in the filter.")
    if kind not in (CLIENT_ID, IP, USER):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    if how == EXACT:
        if name is None:
            raise _invalid("Request specified MATCH_TYPE_EXACT, but set match string to null.")
        exact[kind] = name
    elif how in (DEFAULT, SPECIFIED):
        if name is not None:
            words = "MATCH_TYPE_DEFAULT" if how == DEFAULT else "MATCH_TYPE_SPECIFIED"
            raise _invalid(f"Request specified {words}, but also specified a match string.")
        if how == DEFAULT:
            exact[kind] = None
        else:
            any_name.add(kind)
    else:
        raise _invalid(f"Unknown match type {how}")


def _invalid(text: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, text)
