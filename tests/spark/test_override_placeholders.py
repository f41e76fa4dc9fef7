"""A connector's overrides name secrets of executors only where the worker's operator allows these."""

from __future__ import annotations

from typing import Any, cast

import pytest

from ottla.connect import ConnectError, storage
from ottla.connect.tasks import TaskPort, TaskSpec, WorkerClients
from ottla.spark.connect.override_placeholders import ALLOWED, refuse_placeholders
from ottla.spark.connect.query_sinks import run_query_sink

LOGIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="a" password="{}";'
KEY = "consumer.override.sasl.jaas.config"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (KEY, LOGIN.format("${env:OTTLA_LAKE}")),
        (KEY, "${file:/etc/ottla/lake/login:jaas}"),
        ("producer.override.ssl.key.password", "${dir:/etc/ottla/lake:key}"),
        (KEY, LOGIN.format("as it stands")),
        ("path", "${env:HOME}"),
        (KEY, None),
    ],
)
def test_what_is_allowed_and_what_is_looked_up_nowhere_passes(key: str, value: str | None) -> None:
    refuse_placeholders({key: value}, {ALLOWED: r"env:OTTLA_.*, file:/etc/ottla/lake/.*,dir:/etc/ottla/lake:.*"})


@pytest.mark.parametrize(
    ("value", "allowed"),
    [
        ("${env:AWS_SECRET_ACCESS_KEY}", ""),
        ("${env:AWS_SECRET_ACCESS_KEY}", "env:OTTLA_.*"),
        ("${env:OTTLA_LAKE}${env:HOME}", "env:OTTLA_.*"),
        ("${env:MY_OTTLA_LAKE}", "env:OTTLA_.*"),
        ("${file:/etc/ottla/lake/../broker/tls:password}", "file:/etc/ottla/lake/.*"),
        ("${dir:/etc/ottla/lake:../../shadow}", "dir:/etc/ottla/lake:.*"),
        ("${file:/etc/shadow:root}", "env:.*,dir:.*"),
    ],
)
def test_what_is_not_allowed_is_refused_by_name(value: str, allowed: str) -> None:
    with pytest.raises(ConnectError, match=r"consumer\.override\.sasl\.jaas\.config names \$\{.*ottla\.executor"):
        refuse_placeholders({KEY: LOGIN.format(value)}, {ALLOWED: allowed})


def test_a_pattern_that_is_none_is_an_error_of_the_worker() -> None:
    with pytest.raises(ConnectError, match="no regular expression"):
        refuse_placeholders({KEY: "${env:A}"}, {ALLOWED: "env:("})


def test_a_task_fails_before_it_asks_anybody() -> None:
    told: list[tuple[storage.State, str | None]] = []

    class Told:
        def tell(self, state: storage.State, trace: str | None = None) -> None:
            told.append((state, trace))

    config = {"name": "lake", KEY: LOGIN.format("${env:HOME}")}
    spec = TaskSpec(storage.TaskId("lake", 0), config, config, {}, WorkerClients("h:1"), storage.TargetState.STARTED, 0)
    none: Any = None
    assert run_query_sink(spec, cast(TaskPort, Told()), spark=none, plugins=none) is storage.State.FAILED
    [(state, trace)] = told
    assert state is storage.State.FAILED and ALLOWED in str(trace)
