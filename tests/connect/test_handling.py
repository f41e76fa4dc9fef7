"""Chains with predicates, what is done about errors, dead letters' headers, and values that stand elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.base import ConfigError
from ottla.config import ConfigType, EnvironmentProvider, is_secret, placeholders, resolved
from ottla.connect import (
    ConnectError,
    DataError,
    PluginKind,
    RetriableError,
    SinkRecord,
    apply_chain,
    chain_of,
    discover,
)
from ottla.connect.error_policy import (
    ErrorContext,
    Fail,
    Processing,
    Retry,
    Skip,
    Tolerance,
    concealed,
    context_headers,
    masked,
    restart_delay_ms,
)
from ottla.connect.providers import providers_of
from ottla.connect.transforms.chain import Stage
from ottla.connect.worker_keys import distributed_def, standalone_def

TRANSFORMS = "org.apache.kafka.connect.transforms."
PLUGINS = discover()


def chain(**props: str) -> list[Stage]:
    settings = {key.replace("__", "."): value for key, value in props.items()}
    return chain_of(
        settings,
        lambda name: PLUGINS.find(PluginKind.TRANSFORMATION, name),
        lambda name: PLUGINS.find(PluginKind.PREDICATE, name),
    )


def record(topic: str, value: object = None) -> SinkRecord:
    return SinkRecord(topic=topic, partition=0, offset=1, value=value, timestamp=0)


def filtered(**more: str) -> list[Stage]:
    return chain(
        transforms="drop, hoist",
        transforms__drop__type=TRANSFORMS + "Filter",
        transforms__drop__predicate="orders",
        transforms__hoist__type=TRANSFORMS + "HoistField$Value",
        transforms__hoist__field="f",
        predicates="orders",
        predicates__orders__type=TRANSFORMS + "predicates.TopicNameMatches",
        predicates__orders__pattern="orders.*",
        **more,
    )


def test_a_predicate_chooses_the_records_of_a_transformation_and_negate_the_others() -> None:
    assert apply_chain(filtered(), record("orders-1")) is None
    assert apply_chain(filtered(), record("x", 1)).value == {"f": 1}
    negated = filtered(transforms__drop__negate="true")
    assert apply_chain(negated, record("orders-1", 1)).value == {"f": 1}
    assert apply_chain(negated, record("x")) is None


@pytest.mark.parametrize(
    ("props", "message"),
    [
        ({"transforms": "a"}, "Invalid value null for configuration transforms.a.type: Not a Transformation"),
        ({"transforms": "a", "transforms__a__type": "x.Y"}, r"Class x\.Y could not be found\."),
        ({"transforms": "a,a"}, r"Invalid value \[a, a\] for configuration transforms: Duplicate alias provided\."),
        (
            {"transforms": "a", "transforms__a__type": TRANSFORMS + "Filter", "transforms__a__negate": "true"},
            "Config 'transforms.a.negate' was provided but there is no config 'transforms.a.predicate'",
        ),
        (
            {"transforms": "a", "transforms__a__type": TRANSFORMS + "Filter", "transforms__a__predicate": "p"},
            "transforms.a.predicate",
        ),
    ],
)
def test_a_chain_that_cannot_be_meant_is_refused_in_kafkas_words(props: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        chain(**props)


def decide(tolerance: Tolerance, error: Exception, stage: Processing, *, attempt: int = 1, now_ms: int = 0) -> object:
    return tolerance.decide(error, stage=stage, attempt=attempt, started_ms=0, now_ms=now_ms, below=lambda n: n - 1)


def test_errors_of_a_record_are_skipped_where_tolerated_and_fail_the_task_elsewhere() -> None:
    bad = DataError("bad")
    assert decide(Tolerance(all=True), bad, Processing.VALUE_CONVERTER) == Skip()
    assert decide(Tolerance(), bad, Processing.TRANSFORMATION) == Fail("Tolerance exceeded in error handler")
    assert decide(Tolerance(all=True), bad, Processing.TASK_PUT) == Fail("Unhandled exception in error handler")
    assert decide(Tolerance(all=True), RetriableError("later"), Processing.TASK_POLL) == Skip()


def test_retriable_errors_are_tried_again_with_doubling_delays_until_the_timeout() -> None:
    later, patient = RetriableError("later"), Tolerance(retry_timeout_ms=10_000, retry_delay_ms_max=1_000)
    delays = [decide(patient, later, Processing.TASK_PUT, attempt=attempt) for attempt in (1, 2, 3)]
    assert delays == [Retry(300), Retry(600), Retry(999)]
    assert decide(patient, later, Processing.TASK_PUT, now_ms=9_900) == Retry(100)
    assert decide(patient, later, Processing.TASK_PUT, now_ms=10_000) == Fail("Tolerance exceeded in error handler")
    assert decide(Tolerance(retry_timeout_ms=-1), later, Processing.TASK_PUT, now_ms=1 << 40) == Retry(300)


def test_a_failed_task_restarts_with_longer_pauses_and_not_for_ever() -> None:
    delays = [restart_delay_ms(count, first_ms=1_000, most_ms=5_000, restarts_max=4) for count in range(5)]
    assert delays == [1_000, 2_000, 4_000, 5_000, None]


def test_a_dead_letter_says_where_its_error_happened() -> None:
    error = DataError("no number")
    context = ErrorContext("c", 3, Processing.TRANSFORMATION, TRANSFORMS + "Cast$Value", error, "t", 1, 42)
    headers = dict(context_headers(context))
    assert list(headers)[:4] == [
        f"__connect.errors.{name}" for name in ("topic", "partition", "offset", "connector.name")
    ]
    assert headers["__connect.errors.offset"] == b"42"
    assert headers["__connect.errors.stage"] == b"TRANSFORMATION"
    assert headers["__connect.errors.exception.class.name"] == b"org.apache.kafka.connect.errors.DataException"
    assert headers["__connect.errors.exception.message"] == b"no number"


def test_placeholders_are_found_and_put_in_and_unknown_ones_stay() -> None:
    props = {"a": "x-${file:/p:k}-${env:HOME}", "b": "${other:z}", "c": None}
    assert {each.provider for each in placeholders(props)} == {"file", "env", "other"}
    found = resolved(props, lambda each: None if each.provider == "other" else f"<{each.path}|{each.key}>")
    assert found == {"a": "x-</p|k>-<|HOME>", "b": "${other:z}", "c": None}


def test_secrets_are_hidden_and_placeholders_for_them_are_not() -> None:
    props = {"db.password": "hunter2", "user": "me", "aws.secret.access.key": "${env:KEY}", "sasl.jaas.config": "x"}
    assert masked(props) == {
        "db.password": "[hidden]",
        "user": "me",
        "aws.secret.access.key": "${env:KEY}",
        "sasl.jaas.config": "[hidden]",
    }


def test_providers_read_only_where_they_are_allowed(tmp_path: Path) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    for folder in (inside, outside):
        folder.mkdir()
        (folder / "s.properties").write_text("key=value\n")
    (inside / "link").symlink_to(outside / "s.properties")
    kinds = "org.apache.kafka.common.config.provider."
    worker = {
        "config.providers": "file,dir",
        "config.providers.file.class": kinds + "FileConfigProvider",
        "config.providers.file.param.allowed.paths": str(inside),
        "config.providers.dir.class": kinds + "DirectoryConfigProvider",
        "config.providers.dir.param.allowed.paths": str(inside),
    }
    providers = providers_of(worker)

    def value(text: str) -> str | None:
        return resolved({"v": text}, providers.lookup)["v"]

    assert value(f"${{file:{inside}/s.properties:key}}") == "value"
    assert value(f"${{dir:{inside}:s.properties}}") == "key=value\n"
    for refused in (
        f"${{file:{outside}/s.properties:key}}",
        f"${{file:{inside}/../out/s.properties:key}}",
        f"${{file:{inside}/link:key}}",
        f"${{dir:{inside}:../out/s.properties}}",
        f"${{dir:{outside}:s.properties}}",
        "${env:HOME}",
    ):
        assert value(refused) == refused
    with pytest.raises(ConnectError, match="Could not read"):
        value(f"${{file:{inside}/missing:key}}")


def test_the_environment_is_read_by_an_allowlist() -> None:
    provider = EnvironmentProvider({"allowlist.pattern": "DB_.*"}, {"DB_URL": "u", "HOME": "h"})
    assert provider.get("", "DB_URL") == "u"
    assert provider.get("", "HOME") is None
    assert provider.get("path", "DB_URL") is None


def test_a_provider_that_is_not_ours_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"Invalid value com\.example\.Vault"):
        providers_of({"config.providers": "v", "config.providers.v.class": "com.example.Vault"})


def test_every_key_that_a_service_declares_a_password_is_one_by_its_name_too_and_no_other_is() -> None:
    keys = {**standalone_def().keys, **distributed_def().keys}
    for each in PLUGINS.installed:
        definition = getattr(each.cls, "config_def", None)
        keys |= {} if definition is None else {name: key for name, key in definition.keys.items() if name not in keys}
    declared = {name for name, key in keys.items() if key.type is ConfigType.PASSWORD}
    assert "sasl.jaas.config" in declared and [name for name in sorted(declared) if not is_secret(name)] == []
    assert [name for name, key in keys.items() if name not in declared and is_secret(name, None, key.type)] == []


def test_an_error_of_one_key_conceals_the_secrets_of_all() -> None:
    def info(name: str, value: str, kind: ConfigType, *errors: str) -> dict[str, object]:
        return {
            "definition": {"name": name, "type": kind.name},
            "value": {"name": name, "value": value, "errors": list(errors)},
        }

    url = "no answer from db:5432 as ann with hunter-2, hunter-2-and-more"
    infos = {
        "configs": [
            info("connection.url", "db:5432", ConfigType.STRING, url, "Invalid value 1"),
            info("connection.password", "hunter-2", ConfigType.PASSWORD),
            info("ssl.key.password", "hunter-2-and-more", ConfigType.PASSWORD),
            info("tasks.max", "1", ConfigType.INT),
        ]
    }
    resolved_values = {
        "connection.url": "db:5432",
        "connection.password": "hunter-2",
        "ssl.key.password": "hunter-2-and-more",
        "tasks.max": "1",
    }
    given = {**resolved_values, "connection.password": "${file:/s:p}", "tasks.max": "${env:TASKS}"}
    first = concealed(infos, given, resolved_values)["configs"][0]["value"]
    assert first["errors"] == ["no answer from db:5432 as ann with ${file:/s:p}, [hidden]", "Invalid value 1"]
