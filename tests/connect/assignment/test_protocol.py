"""The group's metadata and assignments, against Kafka's own bytes."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ottla.connect import DataError
from ottla.connect.assignment import (
    Assignment,
    GroupProtocol,
    WorkerState,
    decode_assignment,
    decode_worker_state,
    encode_assignment,
    encode_worker_state,
)
from ottla.connect.storage import TaskId
from tests.peer.connect import oracle

FULL = Assignment(
    *("leader", "http://leader:8083", 42, ("a", "b"), (TaskId("a", 0), TaskId("c", 7)), ("d",), (TaskId("d", 1),)),
    *(3000, 0),
)
EMPTY = Assignment("leader", "http://leader:8083", 42, error=1)


@pytest.mark.parametrize("version", [GroupProtocol.COMPATIBLE, GroupProtocol.SESSIONED])
@pytest.mark.parametrize("held", [None, FULL, EMPTY])
def test_what_is_written_is_what_is_read(version: GroupProtocol, held: Assignment | None) -> None:
    state = WorkerState("http://here:8083", 17, held)
    assert decode_worker_state(encode_worker_state(state, version)) == state
    if held is not None:
        assert decode_assignment(encode_assignment(held, version)) == held


def test_version_0_says_neither_what_a_worker_has_nor_what_it_gives_up() -> None:
    state = WorkerState("http://here:8083", 17, FULL)
    assert decode_worker_state(encode_worker_state(state, GroupProtocol.EAGER)).assignment is None
    found = decode_assignment(encode_assignment(FULL, GroupProtocol.EAGER))
    assert found is not None and found.connectors == FULL.connectors and found.revoked_tasks == ()


def test_bytes_that_end_too_early_are_refused() -> None:
    data = encode_assignment(FULL, GroupProtocol.SESSIONED)
    for end in (1, 3, 20, len(data) - 1):
        with pytest.raises(DataError):
            decode_assignment(data[:end])


def test_the_settings_offer_what_they_allow() -> None:
    assert [each.group_name for each in GroupProtocol.offered("sessioned")] == ["sessioned", "compatible", "default"]
    assert [each.group_name for each in GroupProtocol.offered("EAGER")] == ["default"]
    with pytest.raises(DataError, match=r"connect\.protocol"):
        GroupProtocol.offered("lazy")


@pytest.mark.peer
@pytest.mark.slow
def test_the_bytes_are_kafkas() -> None:
    def asked(held: Assignment) -> dict[str, Any]:
        return {
            "given": [list(held.connectors), [list(each) for each in held.tasks]],
            "revoked": [list(held.revoked_connectors), [list(each) for each in held.revoked_tasks]],
            "error": held.error,
            "offset": held.offset,
            "delay": held.delay_ms,
        }

    with oracle("GroupOracle.java") as ask:
        for version in (GroupProtocol.COMPATIBLE, GroupProtocol.SESSIONED):
            for held in (FULL, EMPTY):
                theirs = base64.b64decode(ask({"what": "assignment", "version": version, **asked(held)}))
                assert theirs == encode_assignment(held, version)
                state = WorkerState("http://here:8083", held.offset, held)
                question = {"what": "worker", "version": version, "url": state.url, **asked(held)}
                assert base64.b64decode(ask(question)) == encode_worker_state(state, version)
