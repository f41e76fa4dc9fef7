"""A herder's decisions as records: what is written for a request, and in which order."""

from __future__ import annotations

import pytest

from ottla.connect import AlreadyExistsError, BadRequestError, decisions
from ottla.connect.decisions.signature import ForbiddenError, UnavailableError
from ottla.connect.storage import (
    ConfigState,
    ConnectorConfig,
    SessionKey,
    TargetState,
    TargetStateChange,
    TaskConfig,
    TaskId,
    TasksCommit,
    apply_config,
    encode_config,
)


def folded(*records: object) -> ConfigState:
    state = ConfigState()
    for offset, record in enumerate(records):
        state, _ = apply_config(state, *encode_config(record), offset)  # type: ignore[arg-type]
    return state


CONNECTOR = ConnectorConfig("c", {"name": "c", "file": "${env:FILE}"})


def test_the_initial_state_is_written_before_the_connector() -> None:
    change = decisions.create_or_replace(ConfigState(), "c", {"a": "b"}, target=TargetState.STOPPED, may_replace=False)
    assert change.created
    assert change.records == (TargetStateChange("c", TargetState.STOPPED), ConnectorConfig("c", {"a": "b"}))


def test_what_exists_is_replaced_only_where_that_is_asked() -> None:
    state = folded(CONNECTOR)
    assert not decisions.create_or_replace(state, "c", {}, target=None, may_replace=True).created
    with pytest.raises(AlreadyExistsError, match="Connector c already exists"):
        decisions.create_or_replace(state, "c", {}, target=None, may_replace=False)


def test_a_stop_removes_the_tasks_first_and_leaves_them_removed() -> None:
    state = folded(CONNECTOR, TaskConfig(TaskId("c", 0), {}), TasksCommit("c", 1))
    records = decisions.stop(state, "c")
    assert records == [TasksCommit("c", 0), TargetStateChange("c", TargetState.STOPPED)]
    stopped = folded(CONNECTOR, TaskConfig(TaskId("c", 0), {}), TasksCommit("c", 1), *records)
    assert stopped.tasks("c") == ()
    decisions.check_modifiable(stopped, "c")
    with pytest.raises(BadRequestError, match="STOPPED state"):
        decisions.check_modifiable(state, "c")
    with pytest.raises(BadRequestError, match="stopped connector c"):
        decisions.set_tasks(stopped, "c", [{}])


def test_tasks_keep_placeholders_and_change_only_with_their_configuration() -> None:
    state = folded(CONNECTOR)
    configs = decisions.reversed_tasks(CONNECTOR.config or {}, [{"file": "/secret", "n": "1"}])
    assert configs == [{"file": "${env:FILE}", "n": "1"}]
    assert decisions.tasks_changed(state, "c", configs)
    with_tasks = folded(CONNECTOR, *decisions.set_tasks(state, "c", configs))
    assert not decisions.tasks_changed(with_tasks, "c", configs)
    assert decisions.tasks_changed(with_tasks, "c", [{**configs[0], "n": "2"}])
    again = ConnectorConfig("c", {"name": "c", "file": "${env:FILE}", "x": "y"})
    anew = folded(CONNECTOR, *decisions.set_tasks(state, "c", configs), again)
    assert decisions.tasks_changed(anew, "c", configs), "the connector was configured anew"


def test_a_patch_removes_only_the_keys_that_it_nulls() -> None:
    assert decisions.patched(folded(CONNECTOR), "c", {"file": None, "x": "1"}) == {"name": "c", "x": "1"}


def test_only_workers_that_know_the_session_key_are_heard() -> None:
    key = SessionKey(b"k" * 32, "HmacSHA256", 0)
    signed = decisions.sign(b"[]", key)
    decisions.check_signature(signed, b"[]", key)
    with pytest.raises(ForbiddenError):
        decisions.check_signature(signed, b"[{}]", key)
    with pytest.raises(UnavailableError):
        decisions.check_signature(signed, b"[]", None)
    with pytest.raises(BadRequestError, match="missing required signature"):
        decisions.check_signature(None, b"[]", key)
    with pytest.raises(BadRequestError, match="key signing algorithm"):
        decisions.check_signature(decisions.Signature("HmacSHA1", b""), b"[]", key)
