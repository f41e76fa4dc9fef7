"""No setting of any service is accepted without effect: code reads it, or it is told at the start that it changes nothing.

A setting counts as read where its name stands in the code besides its declaration: as a text, as an attribute of the typed
settings, or, of settings that a service reads at once, where the settings' value changes with it and something reads that.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from ottla.config import (
    BROKER_KEYS,
    CONSUMER_KEYS,
    GROUP_KEYS,
    PRODUCER_KEYS,
    STREAMS_KEYS,
    TOPIC_KEYS,
)
from ottla.config.ineffective import INEFFECTIVE
from ottla.config.synonyms import BROKER_SYNONYMS, TOPIC_SYNONYMS
from ottla.connect.client_overrides import ClientKind, ineffective_keys
from ottla.connect.worker_config import UNHEARD, WorkerMode
from ottla.console import settings as console
from ottla.registry import settings as registry
from ottla.sql_server import settings as sql
from ottla.streams import StreamsSettings, setting_meanings

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ottla"
DECLARED = ("config/broker_keys.py", "config/broker_settings.py", "config/topic_keys.py", "config/topic_settings.py")
DECLARED += ("config/group_keys.py", "config/streams_keys.py", "config/producer_keys.py", "config/consumer_keys.py")
DECLARED += ("config/ineffective.py", "config/synonyms.py", "streams/setting_meanings.py")
NOT_SERVED = ("share.", "streams.", "local.retention.", "remote.")
"""Of topics and groups: share groups, groups of the streams protocol and tiers are not there (docs/configuration.md)."""


@cache
def words() -> Counter[str]:
    """How often each text, attribute and argument stands in the code, but for declarations of keys."""
    found: Counter[str] = Counter()
    for path in SOURCE.rglob("*.py"):
        if "messages" in path.parts or str(path.relative_to(SOURCE)) in DECLARED:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                found[node.value] += 1
            elif isinstance(node, ast.Attribute):
                found[f".{node.attr}"] += 1
    return found


def is_read(key: str, *, least: int = 1, prefixes: Collection[str] = ()) -> bool:
    """Whether a key's name, or what is behind a prefix that a service puts before it, stands so often in the code."""
    names = [key, *(key.removeprefix(each) for each in prefixes if key.startswith(each))]
    attribute = key.replace(".", "_").replace("-", "_")
    return any(words()[each] >= least for each in names) or any(words()[each] for each in (f".{attribute}", attribute))


def without_effect(name: str) -> bool:
    return any(name.startswith(begins) for _, begins in INEFFECTIVE)


def missing(keys: Iterable[str], told: Collection[str] = (), **how: Any) -> list[str]:
    return [each for each in keys if each not in told and not is_read(each, **how)]


def test_every_key_of_the_broker_is_read_or_told() -> None:
    of_topics = {each for names in TOPIC_SYNONYMS.values() for each, _ in names} | {
        each for key, names in BROKER_SYNONYMS.items() if is_read(key) for each in names
    }
    assert missing(key for key in BROKER_KEYS if not without_effect(key) and key not in of_topics) == []


@pytest.mark.parametrize("keys", [TOPIC_KEYS, GROUP_KEYS], ids=["topic", "group"])
def test_every_key_of_topics_and_groups_is_read_or_not_served(keys: Mapping[str, object]) -> None:
    assert [each for each in missing(keys) if not each.startswith(NOT_SERVED)] == []


def test_every_key_of_streams_is_read_or_told() -> None:
    assert missing(STREAMS_KEYS, {*setting_meanings.WITHOUT_MEANING, *setting_meanings.ALLOWED}) == []
    assert missing(setting_meanings.OWN_KEYS) == []


@pytest.mark.parametrize("name", ["window.size.ms", "application.server", "default.list.key.serde.type"])
def test_what_only_javas_streams_have_is_told(name: str) -> None:
    value = "1" if name.endswith("ms") else "localhost:1"
    given = {"application.id": "a", "bootstrap.servers": "localhost:9092", name: value}
    assert [each for each in StreamsSettings.of(given).notices if each.startswith(f"{name} has no effect: ")]


@pytest.mark.parametrize("kind", ClientKind)
def test_a_setting_of_a_tasks_client_that_nothing_reads_is_told(kind: ClientKind) -> None:
    known = {ClientKind.PRODUCER: PRODUCER_KEYS, ClientKind.CONSUMER: CONSUMER_KEYS}.get(kind, {})
    unread = [each for each in known if not is_read(each)]
    assert ineffective_keys(kind, dict.fromkeys(unread, "1")) == unread


@pytest.mark.parametrize("mode", WorkerMode)
def test_every_key_of_a_worker_is_read_or_told(mode: WorkerMode) -> None:
    prefixes = ("config.storage.", "offset.storage.", "status.storage.")
    clients = (
        "ssl.",
        "sasl.",
    )  # `ClientSecurity` reads them by their beginnings, and `unused_security` tells the others
    keys = [key for key in mode.definition.keys if key not in UNHEARD and not key.startswith(clients)]
    assert missing(keys, least=2, prefixes=prefixes) == []


REGISTRY_SAMPLES = {
    "listeners": "http://localhost:1234",
    "kafkastore.bootstrap.servers": "localhost:1234",
    "schema.compatibility.level": "full",
    "mode.mutability": "false",
    "leader.eligibility": "false",
    "inter.instance.protocol": "http",
    "access.control.allow.origin": "http://a.example",
    "schema.search.default.limit": "7",
    "schema.search.max.limit": "8",
    "kafkagroup.session.timeout.ms": "7000",
    "kafkagroup.heartbeat.interval.ms": "301",
}
ONE_IS_SERVED = {"inter.instance.protocol"}
"""It chooses among the listeners' schemes, of which there is one here."""


@pytest.mark.parametrize("key", [*registry.SETTINGS])
def test_every_setting_of_the_registry_changes_what_it_does_or_is_told(key: str) -> None:
    base = {"kafkastore.bootstrap.servers": "localhost:9092"}
    if key == "access.control.allow.methods":
        base["access.control.allow.origin"] = "http://a.example"
    value = REGISTRY_SAMPLES.get(key) or ("1234" if registry.SETTINGS[key].isdigit() else "other.example")
    plain, made = (registry.registry_settings(each, {}) for each in (base, {**base, key: value}))
    told = [each for each in made.warnings if each.startswith(f"{key} ")]
    assert key in ONE_IS_SERVED or told or _differs(plain, made), key


SQL_SAMPLES = {
    "listeners": "http://localhost:1234",
    "ottla.sql.engine": "python",
    "ksql.queries.file": __file__,
    "ksql.logging.processing.topic.name": "t",
    "ksql.logging.processing.stream.name": "s",
}


@pytest.mark.parametrize("key", [*sql.SETTINGS])
def test_every_setting_of_the_sql_server_changes_what_it_does_or_is_told(key: str) -> None:
    base = {"bootstrap.servers": "localhost:9092"}
    if key.startswith("ksql.logging.processing.stream"):
        base |= {"ksql.logging.processing.topic.name": "t"}
    if key == "ksql.logging.processing.stream.name":
        base |= {"ksql.logging.processing.stream.auto.create": "true"}
    default = sql.SETTINGS[key]
    other = {"true": "false", "false": "true"}.get(default) or ("1234" if default.isdigit() else "other")
    plain, made = (sql.server_settings(each, {}) for each in (base, {**base, key: SQL_SAMPLES.get(key, other)}))
    told = [each for each in made.warnings if each.startswith(f"{key} ")]
    assert told or _differs(plain, made, but={"properties"}) or is_read(key, least=2), key


@pytest.mark.parametrize("of", [registry.RegistrySettings, sql.ServerSettings, sql.Limits, sql.LogSettings])
def test_what_settings_become_is_read(of: type) -> None:
    assert [each.name for each in fields(of) if not words()[f".{each.name}"]] == []


def _differs(one: object, other: object, but: Collection[str] = ()) -> bool:
    names = [each.name for each in fields(one) if each.name not in (*but, "warnings")]  # type: ignore[arg-type]
    return any(_shown(getattr(one, each)) != _shown(getattr(other, each)) for each in names)


def _shown(value: object) -> object:
    return callable(value) if callable(value) else value


def test_every_setting_of_the_console_is_read() -> None:
    tree = ast.parse((SOURCE / "console" / "settings.py").read_text())
    loaded = Counter(
        each.id for each in ast.walk(tree) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)
    )
    names = {value: name for name, value in vars(console).items() if isinstance(value, str) and name.isupper()}
    assert [key for key in console.KEYS if loaded[names[key]] < (1 if key in console.OIDC_KEYS else 2)] == []
