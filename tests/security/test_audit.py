"""The audit log: Kafka's lines, at Kafka's levels, and no more of them than are allowed."""

from __future__ import annotations

import json
import logging
import subprocess
from pathlib import Path

import pytest

from ottla.security import Acl, Operation, PatternType, PermissionType, Resource, StandardAuthorizer
from ottla.security.audit import LOGGER, TRACE, AuditedRequest, AuditLog
from ottla.security.authorizer import DEFAULT_ALLOW, DEFAULT_DENY
from tests import peer

ENTRY = Acl(Resource.TOPIC, "t", PatternType.PREFIXED, "User:a", "*", Operation.READ, PermissionType.DENY)


@pytest.fixture
def lines(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(TRACE, logger=LOGGER)
    return caplog


def record(
    log: AuditLog,
    *,
    allowed: bool = False,
    name: str = "t",
    now_ms: int = 0,
    asked_for: bool = True,
    who: str = "User:a",
) -> None:
    log.record(
        DEFAULT_ALLOW if allowed else DEFAULT_DENY,
        AuditedRequest(who, "10.0.0.1", "Produce"),
        operation=Operation.WRITE,
        resource=Resource.TOPIC,
        name=name,
        now_ms=now_ms,
        is_asked_for=asked_for,
    )


def test_a_denial_is_kafkas_line(lines: pytest.LogCaptureFixture) -> None:
    record(AuditLog())
    assert lines.messages == [
        "Principal = User:a is Denied operation = WRITE from host = 10.0.0.1 on resource = Topic:LITERAL:t "
        "for request = Produce with resourceRefCount = 1 based on rule DefaultDeny"
    ]


def test_levels_are_those_of_kafka(lines: pytest.LogCaptureFixture) -> None:
    log = AuditLog()
    record(log)
    record(log, allowed=True)
    record(log, asked_for=False)
    record(log, allowed=True, asked_for=False)
    assert [each.levelno for each in lines.records] == [logging.INFO, logging.DEBUG, TRACE, TRACE]


def test_levels_that_are_off_cost_no_line_of_the_second(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger=LOGGER)
    log = AuditLog(lines_per_second=2)
    for _ in range(10):
        record(log, allowed=True)
    record(log)
    assert len(caplog.messages) == 1 and log.left_out == 0


def test_a_flood_is_counted_and_said_once_it_is_over(lines: pytest.LogCaptureFixture) -> None:
    log = AuditLog(lines_per_second=3)
    for at in range(1000):
        record(log, now_ms=at)
    record(log, allowed=True, now_ms=999)
    assert len(lines.messages) == 4 and log.left_out == 997
    log.flush(999)
    assert len(lines.messages) == 4
    log.flush(1000)
    log.flush(1000)
    assert lines.messages[4:] == ["997 more decisions were not logged: more than 3 a second"]
    record(log, now_ms=1000)
    assert len(lines.messages) == 6


def test_a_flood_of_what_is_allowed_leaves_room_for_denials(lines: pytest.LogCaptureFixture) -> None:
    log = AuditLog(lines_per_second=3)
    for _ in range(100):
        record(log, allowed=True)
    record(log)
    assert "Denied" in lines.messages[-1]


@pytest.mark.parametrize("name", ["a\nPrincipal = User:b is Allowed", "\x1b[31m", "a\u2028b", "\u202eb", "x" * 30_000])
def test_names_cannot_forge_a_line_or_fill_the_log(lines: pytest.LogCaptureFixture, name: str) -> None:
    record(AuditLog(), name=name, who=f"User:{name}")
    (line,) = lines.messages
    assert line.isprintable() and len(line) < 2000


@pytest.mark.peer
def test_kafka_writes_the_same_lines(lines: pytest.LogCaptureFixture) -> None:
    acl = [
        ENTRY.resource_type,
        ENTRY.resource_name,
        ENTRY.pattern_type,
        ENTRY.principal,
        ENTRY.host,
        ENTRY.operation,
        2,
    ]
    asked = [
        ("User:a", "10.0.0.1", 3, 2, "tt"),
        ("User:b", "::1", 8, 3, "g"),
        ("User:admin", "10.0.0.1", 4, 4, "kafka-cluster"),
    ]
    world = {
        "super_users": "User:admin",
        "allow_everyone": "false",
        "acls": [acl],
        "removed": [],
        "filters": [],
        "questions": asked,
    }
    flags = ["-Dorg.slf4j.simpleLogger.defaultLogLevel=off", f"-Dorg.slf4j.simpleLogger.log.{LOGGER}=trace"]
    source = Path(peer.__file__).with_name("AuthorizerAnswers.java")
    command = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", *flags, *peer.program(source)]
    done = subprocess.run(
        command, input=json.dumps(world) + "\n", capture_output=True, text=True, timeout=60, check=True
    )
    theirs = [line.partition(" - ")[2] for line in done.stderr.splitlines() if LOGGER in line]
    authorizer = StandardAuthorizer(super_users=["User:admin"])
    authorizer.load({b"1": ENTRY})
    log = AuditLog()
    for principal, host, operation, resource, name in asked:
        decision = authorizer.decide(principal, host, Operation(operation), Resource(resource), name)
        request = AuditedRequest(principal, host, "Produce")
        log.record(decision, request, operation=Operation(operation), resource=Resource(resource), name=name, now_ms=0)
    assert lines.messages == theirs and len(theirs) == 3
