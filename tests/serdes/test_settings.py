"""Confluent's properties are taken by their names; what cannot be kept to is refused, what changes nothing is told."""

from __future__ import annotations

import pytest

from ottla.base import ConfigError
from ottla.serdes import Registry, SerdeError, SubjectStrategy, serde_settings
from ottla.spark.registry_serde import registry_serde
from tests.ports import free_port

URL = {"schema.registry.url": "http://one:8081, http://two:8081/"}


def test_defaults_are_confluents() -> None:
    found = serde_settings(URL, is_key=False)
    assert found.urls == ("http://one:8081", "http://two:8081")
    assert (found.auto_register, found.use_latest, found.latest_strict, found.use_id) == (True, False, True, None)
    assert found.strategy is SubjectStrategy.TOPIC
    assert not found.id_in_header and found.read_headers and not found.warnings


def test_keys_and_values_have_strategies_of_their_own() -> None:
    given = URL | {"key.subject.name.strategy": "io.confluent.kafka.serializers.subject.RecordNameStrategy"}
    assert serde_settings(given, is_key=True).strategy is SubjectStrategy.RECORD
    assert serde_settings(given, is_key=False).strategy is SubjectStrategy.TOPIC


def test_ids_go_to_headers_by_confluents_class_name() -> None:
    name = "io.confluent.kafka.serializers.schema.id.HeaderSchemaIdSerializer"
    assert serde_settings(URL | {"value.schema.id.serializer": name}, is_key=False).id_in_header


def test_names_and_passwords_reach_the_client() -> None:
    given = URL | {"basic.auth.credentials.source": "USER_INFO", "basic.auth.user.info": "anna:secret"}
    found = serde_settings(given, is_key=False)
    assert found.client["basic.auth.user.info"] == "anna:secret"
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "given",
    [
        {"schema.registry.url": ""},
        {"schema.registry.url": "mock://tests"},
        {"schema.registry.url": "localhost:8081"},
        URL | {"auto.register.schemas": "perhaps"},
        URL | {"use.schema.id": "one"},
        URL | {"value.subject.name.strategy": "MyStrategy"},
        URL | {"use.latest.with.metadata": "a"},
        URL | {"rule.executors": "encrypt"},
        URL | {"context.name.strategy": "MyStrategy"},
        URL | {"basic.auth.credentials.source": "USER_INFO"},
        URL | {"basic.auth.credentials.source": "SASL_INHERIT"},
        URL | {"bearer.auth.credentials.source": "OAUTHBEARER"},
        URL | {"bearer.auth.credentials.source": "CUSTOM"},
        URL | {"value.schema.id.serializer": "MySerializer"},
    ],
)
def test_what_cannot_be_kept_to_is_refused(given: dict[str, str]) -> None:
    with pytest.raises(ConfigError):
        serde_settings(given, is_key=False)


def test_a_password_in_an_address_is_not_told() -> None:
    with pytest.raises(ConfigError) as raised:
        serde_settings({"schema.registry.url": "ftp://anna:secret@host"}, is_key=False)
    assert "secret" not in str(raised.value)


def test_what_changes_nothing_is_told() -> None:
    found = serde_settings(URL | {"specific.avro.reader": "true", "auto.register.schema": "true"}, is_key=False)
    assert [each.partition(" ")[0] for each in found.warnings] == ["specific.avro.reader", "auto.register.schema"]


def test_a_login_in_an_address_is_shown_nowhere() -> None:
    given = {"schema.registry.url": f"http://anna:s3cret@127.0.0.1:{free_port()}", "max.retries": "0"}
    settings = serde_settings(given, is_key=False)
    assert settings.client["url"].startswith("http://anna:s3cret@")
    with pytest.raises(SerdeError) as refused:
        Registry(settings).by_id(1)
    assert "s3cret" not in f"{refused.value} {refused.value.__cause__} {settings!r}"
    assert "http://…@127.0.0.1" in str(refused.value)
    assert "s3cret" not in repr(registry_serde(given))
