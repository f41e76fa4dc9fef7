"""Access control entries in the metadata: kept as a dictionary would keep them, made and removed as Kafka does it."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import replace
from random import Random
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import CorruptionError, ErrorCode, KafkaError, Uuid
from ottla.metadata import EMPTY_IMAGE, NO_ACLS, Acl, Image, apply, decide, delta_between, snapshot_records
from ottla.metadata.decide.acls import CHANGES_MAX
from ottla.security import Acl as Entry
from ottla.security import AclFilter, Operation, PatternType, PermissionType, Resource
from ottla.wire.messages.remove_access_control_entry_record import RemoveAccessControlEntryRecord
from tests.metadata.clusters import after, uuid

T = TypeVar("T")
READ_T = Entry(
    *(Resource.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, PermissionType.ALLOW),
)


def entry(name: str = "t", **fields: object) -> Entry:
    return replace(READ_T, resource_name=name, **fields)  # type: ignore[arg-type]


def kept(name: str) -> Acl:
    return Acl(2, name, 3, "User:a", "*", 3, 3)


def at_once(work: Generator[None, None, T]) -> T:
    """Return what a generator returns, without its pauses."""
    while True:
        try:
            next(work)
        except StopIteration as done:
            found: T = done.value
            return found


def removal(image: Image, filters: list[AclFilter]) -> decide.Decision[list[decide.RemovedAcls]]:
    return decide.delete_acls(image, filters, at_once(decide.find_acls(image.acls, filters)))


ids = st.integers(0, 40).map(lambda each: uuid(each * (1 << 118)))


@given(st.lists(st.tuples(ids, st.sampled_from(["a", "b", None])), max_size=60))
def test_entries_are_kept_as_a_dictionary_keeps_them(changes: list[tuple[Uuid, str | None]]) -> None:
    acls, model = NO_ACLS, dict[Uuid, Acl]()
    steps = [(acls, dict(model))]
    for acl_id, name in changes:
        if name is not None:
            acls, model[acl_id] = acls.with_acl(acl_id, kept(name)), kept(name)
        elif acl_id in model:
            acls = acls.without(acl_id)
            del model[acl_id]
        steps.append((acls, dict(model)))
    assert dict(acls.items()) == model and len(acls) == len(model)
    for name in ("a", "b"):
        assert set(acls.ids_of(kept(name))) == {each for each, acl in model.items() if acl == kept(name)}
    for old, was in steps:
        change = acls.changes_since(old)
        assert set(change.added) == {each for each in model if was.get(each) != model[each]}
        assert set(change.removed) == {each for each in was if model.get(each) != was[each]}


def test_an_entry_is_made_once_and_each_result_says_what_became_of_it() -> None:
    asked = [entry(), entry(), entry(""), entry(principal="a"), entry("u")]
    decision = decide.create_acls(EMPTY_IMAGE, asked, rng=Random(1))
    assert [each.resource_name for each in decision.records] == ["t", "u"]
    codes = [None if each is None else each.code for each in decision.response]
    assert codes == [None, None, ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_REQUEST, None]
    image = after(EMPTY_IMAGE, decision)
    assert len(image.acls) == 2
    again = decide.create_acls(image, [entry()], rng=Random(2))
    assert again.records == () and again.response == [None]


def test_what_filters_find_is_removed_once_and_told_by_each() -> None:
    image = after(EMPTY_IMAGE, decide.create_acls(EMPTY_IMAGE, [entry("t"), entry("u")], rng=Random(1)))
    filters = [AclFilter(resource_name="t"), AclFilter(), AclFilter(operation=Operation.UNKNOWN)]
    decision = removal(image, filters)
    assert len(decision.records) == 2
    first, everything, refused = decision.response
    assert first == [entry("t")] and everything == [entry("t"), entry("u")]
    assert isinstance(refused, KafkaError) and refused.code is ErrorCode.INVALID_REQUEST
    assert len(after(image, decision).acls) == 0


@given(st.lists(st.tuples(ids, st.sampled_from(["a", "b", None])), max_size=30), st.integers(0, 30))
def test_what_has_changed_since_filters_looked_is_found_all_the_same(
    changes: list[tuple[Uuid, str | None]], at: int
) -> None:
    acls, looked_at = NO_ACLS, NO_ACLS
    filters = [AclFilter(resource_name="a"), AclFilter()]
    for step, (acl_id, name) in enumerate(changes):
        if step == at:
            looked_at = acls
        if name is not None:
            acls = acls.with_acl(acl_id, kept(name))
        elif acl_id in acls:
            acls = acls.without(acl_id)
    found = at_once(decide.find_acls(looked_at, filters))
    for number, wanted in enumerate(filters):
        assert found.now(acls, number, wanted) == {acl_id for acl_id, acl in acls.items() if wanted.finds(acl)}


def test_looking_at_many_entries_pauses() -> None:
    asked = [entry(f"t{at:05}") for at in range(CHANGES_MAX)]
    image = after(EMPTY_IMAGE, decide.create_acls(EMPTY_IMAGE, asked, rng=Random(1)))
    some = [AclFilter(operation=each) for each in (Operation.READ, Operation.WRITE, Operation.ALTER)]
    assert sum(1 for _ in decide.find_acls(image.acls, some)) >= 3 * 20
    assert sum(1 for _ in decide.found_acls(image.acls, AclFilter())) >= 2 * 20
    assert [acl for _, acl in at_once(decide.found_acls(image.acls, AclFilter()))] == asked


def test_a_filter_that_leaves_nothing_open_finds_what_a_walk_finds() -> None:
    image = after(EMPTY_IMAGE, decide.create_acls(EMPTY_IMAGE, [entry("t"), entry("u")], rng=Random(1)))
    exact = AclFilter(Resource.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, PermissionType.ALLOW)
    assert exact.only == entry("t")
    assert [acl for _, acl in at_once(decide.found_acls(image.acls, exact))] == [entry("t")]
    assert [acl for _, acl in at_once(decide.found_acls(image.acls, AclFilter(resource_name="t")))] == [entry("t")]


def test_too_many_at_once_are_refused_as_a_whole() -> None:
    asked = [entry(f"t{at}") for at in range(CHANGES_MAX + 1)]
    with pytest.raises(KafkaError) as refused:
        decide.create_acls(EMPTY_IMAGE, asked, rng=Random(1))
    assert refused.value.code is ErrorCode.POLICY_VIOLATION
    image = after(EMPTY_IMAGE, decide.create_acls(EMPTY_IMAGE, asked[:-1], rng=Random(1)))
    image = after(image, decide.create_acls(image, asked[-1:], rng=Random(2)))
    with pytest.raises(KafkaError) as refused:
        removal(image, [AclFilter()])
    assert refused.value.code is ErrorCode.POLICY_VIOLATION


def test_a_snapshot_rebuilds_the_entries_and_a_delta_names_what_moved() -> None:
    image = after(EMPTY_IMAGE, decide.create_acls(EMPTY_IMAGE, [entry("t"), entry("u")], rng=Random(1)))
    rebuilt = EMPTY_IMAGE
    for record in snapshot_records(image):
        rebuilt = apply(rebuilt, record)
    assert rebuilt.acls == image.acls
    [acl_id] = [acl_id for acl_id, acl in image.acls.items() if acl.resource_name == "t"]
    smaller = apply(image, RemoveAccessControlEntryRecord(id=acl_id))
    changes = delta_between(image, smaller).acls
    assert changes is not None and (changes.added, changes.removed) == ((), (acl_id,))
    assert delta_between(image, image).acls is None
    with pytest.raises(CorruptionError):
        apply(smaller, RemoveAccessControlEntryRecord(id=acl_id))


def test_many_filters_that_name_something_do_not_look_at_all_entries_each() -> None:
    asked = [entry(f"t{at:05}") for at in range(CHANGES_MAX)]
    image = after(EMPTY_IMAGE, decide.create_acls(EMPTY_IMAGE, asked, rng=Random(1)))
    named = [AclFilter(resource_name=f"x{at}") for at in range(500)]
    assert sum(1 for _ in decide.find_acls(image.acls, named)) < 3 * len(named)
    assert sum(1 for _ in decide.find_acls(image.acls, [AclFilter(operation=Operation.WRITE)] * 500)) < 3 * 500


@given(
    st.lists(st.tuples(st.sampled_from(["a", "ab", "b", "*"]), st.sampled_from(list(PatternType)[3:])), max_size=12),
    st.sampled_from([None, "a", "ab", "abc", "*", "c"]),
    st.sampled_from([PatternType.ANY, PatternType.MATCH, PatternType.LITERAL, PatternType.PREFIXED]),
    st.sampled_from([None, "User:a", "User:x"]),
)
def test_filters_find_what_a_walk_over_all_entries_finds(
    entries: list[tuple[str, PatternType]], name: str | None, pattern: PatternType, principal: str | None
) -> None:
    acls = NO_ACLS
    for at, (resource, kind) in enumerate(entries):
        acls = acls.with_acl(Uuid(bytes([at]) * 16), replace(kept(resource), pattern_type=int(kind)))
    wanted = AclFilter(resource_name=name, pattern_type=pattern, principal=principal)
    (found,) = at_once(decide.find_acls(acls, [wanted])).ids
    assert found == {acl_id for acl_id, acl in acls.items() if wanted.finds(acl)}
