"""Entries and filters: which may be made, what is found, how they are printed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ottla.base import ErrorCode, KafkaError
from ottla.security import (
    Acl,
    AclFilter,
    Operation,
    PatternType,
    PermissionType,
    Resource,
    acl_of,
    check_acl,
    check_filter,
)
from ottla.security.acls import java_host
from ottla.wire.messages.access_control_entry_record import AccessControlEntryRecord

GOOD = Acl(Resource.TOPIC, "t", PatternType.LITERAL, "User:a", "*", Operation.READ, PermissionType.ALLOW)


def test_an_entry_is_printed_as_kafkas_tools_print_it() -> None:
    assert GOOD.pattern_text == "ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)"
    assert GOOD.entry_text == "(principal=User:a, host=*, operation=READ, permissionType=ALLOW)"


def test_a_record_becomes_an_entry_and_codes_of_newer_versions_become_unknown() -> None:
    record = AccessControlEntryRecord(
        resource_type=2, resource_name="t", pattern_type=3, principal="User:a", host="*", operation=3, permission_type=3
    )
    assert acl_of(record) == GOOD
    newer = record.replace(operation=99, resource_type=55)
    assert acl_of(newer) == replace(GOOD, operation=Operation.UNKNOWN, resource_type=Resource.UNKNOWN)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"resource_type": Resource.ANY}, "Invalid resourceType ANY"),
        ({"resource_type": Resource.UNKNOWN}, "Invalid resourceType UNKNOWN"),
        ({"pattern_type": PatternType.MATCH}, "Invalid patternType MATCH"),
        ({"operation": Operation.ANY}, "Invalid operation ANY"),
        ({"permission_type": PermissionType.ANY}, "Invalid permissionType ANY"),
        ({"resource_type": Resource.CLUSTER}, "The only valid name for the CLUSTER resource is kafka-cluster"),
        ({"resource_name": ""}, "Invalid empty resource name"),
        ({"principal": "a"}, "Could not parse principal from `a`"),
    ],
)
def test_an_entry_that_could_never_match_is_refused_with_what_is_wrong(wrong: dict[str, object], says: str) -> None:
    check_acl(GOOD)
    with pytest.raises(KafkaError, match=says) as refused:
        check_acl(replace(GOOD, **wrong))  # type: ignore[arg-type]
    assert refused.value.code is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (AclFilter(resource_type=Resource.UNKNOWN), "Unknown patternFilter."),
        (AclFilter(pattern_type=PatternType.UNKNOWN), "Unknown patternFilter."),
        (AclFilter(operation=Operation.UNKNOWN), "Unknown entryFilter."),
        (AclFilter(permission_type=PermissionType.UNKNOWN), "Unknown entryFilter."),
    ],
)
def test_a_filter_with_unknown_codes_is_refused(wrong: AclFilter, says: str) -> None:
    check_filter(AclFilter())
    with pytest.raises(KafkaError, match=says):
        check_filter(wrong)


def test_a_filter_of_match_finds_all_that_affects_a_name_and_any_finds_the_name_alone() -> None:
    prefix = replace(GOOD, pattern_type=PatternType.PREFIXED, resource_name="t")
    everything = replace(GOOD, resource_name="*")
    entries = [GOOD, prefix, everything, replace(GOOD, resource_name="other")]
    match = AclFilter(resource_name="t1", pattern_type=PatternType.MATCH)
    assert [each for each in entries if match.finds(each)] == [prefix, everything]
    named = AclFilter(resource_name="t", pattern_type=PatternType.ANY)
    assert [each for each in entries if named.finds(each)] == [GOOD, prefix]


def test_a_filter_for_all_operations_finds_entries_for_all_only() -> None:
    wanted = AclFilter(operation=Operation.ALL)
    assert not wanted.finds(GOOD) and wanted.finds(replace(GOOD, operation=Operation.ALL))


@pytest.mark.parametrize(
    ("written", "printed"),
    [
        ("::1", "0:0:0:0:0:0:0:1"),
        ("fe80::1%eth0", "fe80:0:0:0:0:0:0:1%eth0"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("x", "x"),
    ],
)
def test_addresses_are_logged_as_java_prints_them(written: str, printed: str) -> None:
    assert java_host(written) == printed
