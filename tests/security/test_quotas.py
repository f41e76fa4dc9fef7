"""Whose quota holds, who shares it, and what it costs to exceed it."""

from __future__ import annotations

from itertools import product

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.security import ClientQuotas, Entity, QuotaKind, QuotaTable
from ottla.security.quotas import METERS_MAX

RATE = QuotaKind.PRODUCE.value
IN_ORDER: list[Entity] = [
    (("client-id", "app"), ("user", "ann")),
    (("client-id", None), ("user", "ann")),
    (("user", "ann"),),
    (("client-id", "app"), ("user", None)),
    (("client-id", None), ("user", None)),
    (("user", None),),
    (("client-id", "app"),),
    (("client-id", None),),
]
"""From the most particular to the most general, as Kafka documents it."""


def quotas(settings: dict[Entity, dict[str, float]]) -> ClientQuotas:
    made = ClientQuotas()
    made.configure(settings)
    return made


@pytest.mark.parametrize("first", range(len(IN_ORDER)))
def test_the_most_particular_quota_holds(first: int) -> None:
    table = QuotaTable({entity: {RATE: float(at + 1)} for at, entity in enumerate(IN_ORDER) if at >= first})
    found = table.of_client(QuotaKind.PRODUCE, "ann", "app")
    assert found is not None
    assert found.bound == first + 1


def test_a_users_quota_is_shared_by_its_clients_and_a_client_ids_by_all_users() -> None:
    of_user = quotas({(("user", "ann"),): {RATE: 100.0}})
    assert of_user.charge(QuotaKind.PRODUCE, "ann", "a", 1000, 0) == 0
    assert of_user.charge(QuotaKind.PRODUCE, "ann", "b", 1000, 0) == 10_000
    assert of_user.charge(QuotaKind.PRODUCE, "bob", "b", 10**9, 0) == 0
    of_client = quotas({(("client-id", "a"),): {RATE: 100.0}})
    assert of_client.charge(QuotaKind.PRODUCE, "ann", "a", 1000, 0) == 0
    assert of_client.charge(QuotaKind.PRODUCE, "bob", "a", 1000, 0) == 10_000


def test_defaults_give_each_its_own() -> None:
    each = quotas({(("client-id", None), ("user", None)): {RATE: 100.0}})
    for user, client_id in product("ab", "xy"):
        assert each.charge(QuotaKind.PRODUCE, user, client_id, 1000, 0) == 0
    assert each.charge(QuotaKind.PRODUCE, "a", "x", 1, 0) == 10


def test_kinds_are_looked_up_by_themselves() -> None:
    table = QuotaTable({(("user", "ann"),): {RATE: 1.0}, (("client-id", "app"),): {QuotaKind.FETCH.value: 2.0}})
    found = table.of_client(QuotaKind.FETCH, "ann", "app")
    assert found is not None and (found.bound, found.user, found.client_id) == (2.0, "", "app")
    assert table.of_client(QuotaKind.REQUEST, "ann", "app") is None


def test_nobody_waits_longer_than_a_window_for_request_time() -> None:
    limited = quotas({(("user", None),): {QuotaKind.REQUEST.value: 1.0}})
    assert limited.charge(QuotaKind.REQUEST, "ann", "a", 100.0, 0) == 1000


def test_a_changed_quota_holds_at_once_and_what_was_used_counts_on() -> None:
    changing = quotas({(("user", "ann"),): {RATE: 100.0}})
    assert changing.charge(QuotaKind.PRODUCE, "ann", "", 1000, 0) == 0
    changing.configure({(("user", "ann"),): {RATE: 50.0}})
    assert changing.charge(QuotaKind.PRODUCE, "ann", "", 0, 0) == 10_000
    changing.configure({})
    assert changing.charge(QuotaKind.PRODUCE, "ann", "", 10**9, 0) == 0


def test_a_connection_that_is_refused_is_not_counted() -> None:
    limited = quotas({(("ip", "10.0.0.1"),): {QuotaKind.CONNECTION.value: 1.0}})
    assert [limited.connection_opened("10.0.0.1", 0) for _ in range(10)] == [0] * 10
    assert limited.connection_opened("10.0.0.1", 0) == 1000
    assert limited.connection_opened("10.0.0.1", 0) == 1000
    assert limited.connection_opened("10.0.0.2", 0) == 0
    assert limited.connection_opened("10.0.0.1", 1000) > 0, "ten in the last ten seconds still"
    assert limited.connection_opened("10.0.0.1", 12_000) == 0


def test_an_address_of_version_6_is_found_however_it_was_written() -> None:
    limit = {QuotaKind.CONNECTION.value: 5.0}
    table = QuotaTable({(("ip", "2001:DB8:0:0::1"),): limit, (("ip", "a.host.of.kafka's"),): limit})
    assert table.of_ip("2001:db8::1") == 5.0
    assert table.of_ip("2001:db8::2") is None


def test_a_strict_mutation_quota_refuses_and_another_keeps_waiting() -> None:
    limited = quotas({(("user", "ann"),): {QuotaKind.CONTROLLER_MUTATION.value: 1.0}})
    first = limited.mutations("ann", "a", 0, strict=True)
    assert first is not None
    first.charge(20)
    assert first.throttle_ms == 0, "what overdraws is let through"
    again = limited.mutations("ann", "a", 0, strict=True)
    assert again is not None
    with pytest.raises(KafkaError) as caught:
        again.charge(1)
    assert caught.value.code is ErrorCode.THROTTLING_QUOTA_EXCEEDED
    assert again.throttle_ms == 9000
    older = limited.mutations("ann", "a", 0, strict=False)
    assert older is not None
    older.charge(1)
    assert older.throttle_ms == 10_000
    assert limited.mutations("bob", "a", 0, strict=True) is None


def test_client_ids_without_end_do_not_fill_the_memory() -> None:
    limited = quotas({(("client-id", None),): {RATE: 100.0}})
    for number in range(METERS_MAX + 10):
        limited.charge(QuotaKind.PRODUCE, "", f"client {number}", 1, 0)
    assert sum(1 for _ in limited.used(0)) <= METERS_MAX
    assert limited.charge(QuotaKind.PRODUCE, "", f"client {METERS_MAX + 9}", 2000, 0) > 0
