"""StandardAuthorizer's rules, one by one, and against a model that looks at every entry for every question."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.base import ConfigError
from ottla.security import (
    Acl,
    AclFilter,
    AuthorizerNotReadyError,
    Operation,
    PatternType,
    PermissionType,
    Resource,
    StandardAuthorizer,
    super_users,
)
from ottla.security.kept_decisions import DECISIONS_MAX, NAMES_LOOKED_AT_MAX
from tests.security import acl_worlds
from tests.security.acl_worlds import Question

HERE = "10.0.0.1"
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
TOPIC = Resource.TOPIC


def acl(
    name: str = "t",
    *,
    to: str = "User:a",
    may: Operation = READ,
    prefixed: bool = False,
    denied: bool = False,
    host: str = "*",
    resource: Resource = TOPIC,
) -> Acl:
    pattern = PatternType.PREFIXED if prefixed else PatternType.LITERAL
    return Acl(resource, name, pattern, to, host, may, PermissionType.DENY if denied else PermissionType.ALLOW)


def holding(*acls: Acl, super_users: tuple[str, ...] = (), allow_everyone: bool = False) -> StandardAuthorizer:
    authorizer = StandardAuthorizer(super_users=super_users, allow_everyone_if_no_acl_is_found=allow_everyone)
    authorizer.load({bytes([at]): each for at, each in enumerate(acls)})
    return authorizer


def reads(authorizer: StandardAuthorizer, name: str = "t", *, who: str = "User:a", host: str = HERE) -> bool:
    return authorizer.allows(who, host, READ, TOPIC, name)


def naive(acls: list[Acl], supers: set[str], default: bool, question: Question) -> bool:
    """The five rules, read out one after the other."""
    principal, host, operation, resource, name = question
    assert name is not None
    if principal in supers:
        return True
    touching = [
        each
        for each in acls
        if each.resource_type == resource
        and (
            (each.pattern_type == PatternType.LITERAL and each.resource_name in (name, "*"))
            or (each.pattern_type == PatternType.PREFIXED and name.startswith(each.resource_name))
        )
    ]
    mine = [each for each in touching if each.principal in (principal, "User:*") and each.host in (host, "*")]
    if any(
        each.permission_type == PermissionType.DENY and each.operation in (operation, Operation.ALL) for each in mine
    ):
        return False
    implying = {
        DESCRIBE: {READ, WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }
    enough = {operation, Operation.ALL} | implying.get(operation, set())
    if any(each.permission_type == PermissionType.ALLOW and each.operation in enough for each in mine):
        return True
    return default and not touching


@given(
    st.lists(st.tuples(st.booleans(), acl_worlds.acls), max_size=30),
    st.sets(st.sampled_from(acl_worlds.PRINCIPALS), max_size=1),
    st.booleans(),
    st.lists(acl_worlds.questions(somewhere=False), min_size=1, max_size=8),
    st.lists(acl_worlds.filters, max_size=5),
)
def test_changes_of_entries_in_any_order_leave_what_a_naive_model_decides(
    changes: list[tuple[bool, Acl]],
    supers: set[str],
    default: bool,
    asked: list[Question],
    filters: list[AclFilter],
) -> None:
    authorizer = StandardAuthorizer(super_users=supers, allow_everyone_if_no_acl_is_found=default)
    authorizer.load({})
    entries: dict[bytes, Acl] = {}
    for at, (removes, entry) in enumerate(changes):
        if removes and entries:
            gone = sorted(entries)[at % len(entries)]
            del entries[gone]
            authorizer.remove(gone)
        else:
            entries[bytes([at])] = entry
            authorizer.add(bytes([at]), entry)
        for question in asked:  # decisions of before, as far as they are kept, among them
            principal, host, operation, resource, name = question
            assert name is not None
            expected = naive(list(entries.values()), supers, default, question)
            assert authorizer.allows(principal, host, operation, resource, name) is expected, question
    for wanted in filters:
        assert dict(authorizer.found(wanted)) == {at: each for at, each in entries.items() if wanted.finds(each)}
    assert len(authorizer) == len(entries)


def test_who_denies_wins_whatever_is_allowed_elsewhere() -> None:
    authorizer = holding(acl(), acl("*", to="User:*", may=Operation.ALL), acl("", to="User:*", denied=True))
    assert reads(authorizer)
    authorizer.add(b"x", acl("t", prefixed=True, denied=True))
    assert not reads(authorizer) and not reads(authorizer, "tt") and reads(authorizer, "s")


def test_a_super_user_may_do_what_is_denied() -> None:
    authorizer = holding(acl("*", to="User:*", may=Operation.ALL, denied=True), super_users=("User:admin",))
    assert reads(authorizer, who="User:admin") and not reads(authorizer)


def test_before_entries_are_loaded_only_super_users_are_let_through() -> None:
    authorizer = StandardAuthorizer(super_users=("User:admin",), allow_everyone_if_no_acl_is_found=True)
    assert not authorizer.ready and reads(authorizer, who="User:admin")
    with pytest.raises(AuthorizerNotReadyError):
        reads(authorizer)
    with pytest.raises(AuthorizerNotReadyError):
        authorizer.allows_on_some("User:a", HERE, WRITE, TOPIC)
    authorizer.load({})
    assert reads(authorizer)


def test_what_is_denied_to_be_read_may_still_be_described() -> None:
    authorizer = holding(acl(may=WRITE), acl(denied=True))
    assert authorizer.allows("User:a", HERE, DESCRIBE, TOPIC, "t") and not reads(authorizer)


def test_an_entry_about_another_closes_a_resource_that_was_open_to_everyone() -> None:
    authorizer = holding(acl(to="User:b"), allow_everyone=True)
    assert not reads(authorizer) and reads(authorizer, "other")


@pytest.mark.parametrize("written", ["0:0:0:0:0:0:0:1", "::1", "0000::0001"])
def test_an_address_of_version_6_is_one_address_however_it_is_written(written: str) -> None:
    authorizer = holding(acl(host=written))
    assert reads(authorizer, host="::1") and reads(authorizer, host="0:0:0:0:0:0:0:1")
    assert not reads(authorizer, host="::2")


def test_an_address_of_version_4_is_the_same_inside_version_6() -> None:
    authorizer = holding(acl(host="10.0.0.1"))
    assert reads(authorizer, host="::ffff:10.0.0.1") and not reads(authorizer, host="::ffff:10.0.0.2")


def test_a_hosts_name_and_a_network_match_nobody() -> None:
    assert not reads(holding(acl(host="localhost")), host="127.0.0.1")
    assert not reads(holding(acl(host="10.0.0.0/8")))


def test_of_equal_entries_under_two_ids_one_is_enough() -> None:
    authorizer = holding(acl(), acl())
    authorizer.remove(bytes([0]))
    assert reads(authorizer) and authorizer.has(acl())
    authorizer.remove(bytes([1]))
    assert not reads(authorizer) and not authorizer.has(acl())


def test_a_decision_names_the_entry_that_decided() -> None:
    authorizer = holding(acl(), acl("u", denied=True), super_users=("User:admin",))
    assert authorizer.decide("User:a", HERE, READ, TOPIC, "t").acl == acl()
    assert authorizer.decide("User:a", HERE, READ, TOPIC, "u").acl == acl("u", denied=True)
    assert authorizer.decide("User:a", HERE, READ, TOPIC, "v").rule == "DefaultDeny"
    assert authorizer.decide("User:admin", HERE, READ, TOPIC, "v").rule == "SuperUser"


@pytest.mark.parametrize(
    "changed",
    [
        acl("other"),
        acl("tt", prefixed=True),
        acl("*", resource=Resource.GROUP),
        acl("t", resource=Resource.GROUP, to="User:*", denied=True),
    ],
)
def test_what_was_decided_of_a_name_is_kept_while_entries_about_others_change(changed: Acl) -> None:
    authorizer = holding(acl())
    decided = authorizer.decide("User:a", HERE, READ, TOPIC, "t")
    authorizer.add(b"x", changed)
    assert authorizer.decide("User:a", HERE, READ, TOPIC, "t") is decided
    authorizer.remove(b"x")
    assert authorizer.decide("User:a", HERE, READ, TOPIC, "t") is decided


@pytest.mark.parametrize("names", [1, NAMES_LOOKED_AT_MAX + 1])
@pytest.mark.parametrize(
    "changed", [acl("t-", prefixed=True, denied=True), acl("*", denied=True), acl("t-0", to="User:b", denied=True)]
)
def test_what_a_changed_entry_touches_is_decided_anew(changed: Acl, names: int) -> None:
    authorizer = holding(acl("t-", prefixed=True), allow_everyone=True)
    for who in ("User:a", "User:b"):
        assert all(reads(authorizer, f"t-{at}", who=who) is (who == "User:a") for at in range(names))
    authorizer.add(b"x", changed)
    assert reads(authorizer, "t-0") is (changed.principal == "User:b")
    authorizer.remove(b"x")
    assert reads(authorizer, "t-0") and not reads(authorizer, "t-0", who="User:b")


def test_another_entry_under_the_same_id_counts_in_place_of_the_first() -> None:
    authorizer = holding(acl("t"), acl("s", to="User:b"))
    assert reads(authorizer, "t") and not reads(authorizer, "s")
    authorizer.add(bytes([0]), acl("s"))
    assert not reads(authorizer, "t") and reads(authorizer, "s")


def test_names_that_clients_make_up_do_not_fill_the_memory() -> None:
    authorizer = holding(acl())
    for at in range(DECISIONS_MAX + 10):
        reads(authorizer, f"made-up-{at}")
    assert len(authorizer._decided) <= DECISIONS_MAX
    reads(authorizer, "x" * 30_000)
    assert max(len(name) for *_, name in authorizer._decided) < 300


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([], False),
        ([acl(may=WRITE)], True),
        ([acl(may=WRITE), acl(may=WRITE, denied=True)], False),
        ([acl(may=WRITE), acl("*", may=WRITE, denied=True)], False),
        ([acl("tt", may=WRITE), acl("t", prefixed=True, may=Operation.ALL, denied=True)], False),
        ([acl("tt", prefixed=True, may=WRITE), acl("t", prefixed=True, may=WRITE, denied=True)], False),
        ([acl("t", may=WRITE), acl("t", prefixed=True, may=WRITE, denied=True)], False),
        ([acl("t", prefixed=True, may=WRITE), acl("t", may=WRITE, denied=True)], True),
        ([acl("*", may=WRITE), acl("t", prefixed=True, may=WRITE, denied=True)], True),
        ([acl("t", may=WRITE), acl("t", may=WRITE, denied=True, to="User:b")], True),
        ([acl("t", may=WRITE, host="10.9.9.9")], False),
        ([acl("g", may=WRITE, resource=Resource.GROUP)], False),
    ],
)
def test_writing_to_some_topic_is_allowed_where_denials_leave_one(entries: list[Acl], expected: bool) -> None:
    assert holding(*entries).allows_on_some("User:a", HERE, WRITE, TOPIC) is expected


def test_some_topic_is_open_to_everyone_until_an_entry_is_about_all_of_them() -> None:
    assert holding(acl(to="User:b"), allow_everyone=True).allows_on_some("User:a", HERE, WRITE, TOPIC)
    assert not holding(acl("*", to="User:b"), allow_everyone=True).allows_on_some("User:a", HERE, WRITE, TOPIC)


def test_super_users_are_divided_by_semicolons_because_names_hold_commas() -> None:
    assert super_users("User:a; User:CN=x,O=y;") == {"User:a", "User:CN=x,O=y"}
    assert super_users("") == frozenset()
    with pytest.raises(ConfigError, match="principalType:principalName but got admin"):
        super_users("admin")
