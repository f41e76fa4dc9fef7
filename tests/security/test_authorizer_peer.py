"""Kafka's own StandardAuthorizer and ours, asked the same about the same entries.

Names here begin with no character before `*`: where an entry has such a name (only groups and transactional ids can have
one) and a request asks for another that begins alike, the search of Kafka 4.3.0 starts again and again at the same place.
"""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.security import Acl, AclFilter, StandardAuthorizer
from tests import peer
from tests.processes import end
from tests.security import acl_worlds
from tests.security.acl_worlds import Question

pytestmark = pytest.mark.peer

SOURCE = Path(peer.__file__).with_name("AuthorizerAnswers.java")
Ask = Callable[[dict[str, Any]], dict[str, Any]]


@pytest.fixture(scope="module")
def kafka() -> Iterator[Ask]:
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command += peer.program(SOURCE)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, encoding="utf-8")

    def ask(world: dict[str, Any]) -> dict[str, Any]:
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(json.dumps(world) + "\n")
        process.stdin.flush()
        answer: dict[str, Any] = json.loads(process.stdout.readline())
        return answer

    try:
        yield ask
    finally:
        end(process, 10)


def fields(each: Acl | AclFilter) -> list[object]:
    what = [each.resource_type, each.resource_name, each.pattern_type]
    return [*what, each.principal, each.host, each.operation, each.permission_type]


def ours(authorizer: StandardAuthorizer, question: Question) -> bool:
    principal, host, operation, resource, name = question
    if name is None:
        return authorizer.allows_on_some(principal, host, operation, resource)
    return authorizer.allows(principal, host, operation, resource, name)


@settings(max_examples=150)
@given(
    st.lists(acl_worlds.acls, max_size=25, unique=True),
    st.data(),
    st.sampled_from(["", "User:a", "User:b;User:CN=x,O=y"]),
    st.booleans(),
    st.lists(acl_worlds.questions(), min_size=1, max_size=60),
    st.lists(acl_worlds.filters, max_size=10),
)
def test_the_same_is_allowed_and_the_same_entries_are_found(
    kafka: Ask,
    acls: list[Acl],
    data: st.DataObject,
    supers: str,
    allow_everyone: bool,
    asked: list[Question],
    filters: list[AclFilter],
) -> None:
    removed = data.draw(st.sets(st.integers(0, len(acls) - 1), max_size=5)) if acls else set()
    theirs = kafka(
        {
            "super_users": supers,
            "allow_everyone": allow_everyone,
            "acls": [fields(each) for each in acls],
            "removed": sorted(removed),
            "questions": [[each for each in question if each is not None] for question in asked],
            "filters": [fields(each) for each in filters],
        }
    )
    authorizer = StandardAuthorizer(
        super_users=[each for each in supers.split(";") if each], allow_everyone_if_no_acl_is_found=allow_everyone
    )
    authorizer.load({})
    for at, each in enumerate(acls):
        authorizer.add(bytes([at]), each)
    for at in removed:
        authorizer.remove(bytes([at]))
    assert [ours(authorizer, question) for question in asked] == theirs["allowed"]
    for wanted, found in zip(filters, theirs["found"], strict=True):
        assert Counter(f"{each.pattern_text} {each.entry_text}" for _, each in authorizer.found(wanted)) == Counter(
            found
        )
