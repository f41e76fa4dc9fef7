"""Confluent's properties of serializers, deserializers and their client, as one value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ottla.base import ConfigError
from ottla.serdes.naming import SubjectStrategy, strategy_of

__all__ = ["KNOWN_KEYS", "SerdeSettings", "serde_settings"]

URL = "schema.registry.url"
TLS = "schema.registry.ssl."
METADATA = "use.latest.with.metadata"
_BOOLEANS = {
    "auto.register.schemas": True,
    "use.latest.version": False,
    "latest.compatibility.strict": True,
    "id.compatibility.strict": True,
    "normalize.schemas": False,
    "json.fail.invalid.schema": False,
    "avro.use.logical.type.converters": True,
}
_NUMBERS = {
    "use.schema.id": (-1, -1),
    "max.schemas.per.subject": (1000, 1),
    "latest.cache.size": (1000, 1),
    "latest.cache.ttl.sec": (-1, -1),
    "max.retries": (3, 0),
    "retries.wait.ms": (1000, 0),
    "retries.max.wait.ms": (20_000, 0),
    "http.connect.timeout.ms": (60_000, 1),
    "http.read.timeout.ms": (60_000, 1),
}
"""Whole numbers: their defaults, and the least that they may be."""
_STRATEGIES = ("key.subject.name.strategy", "value.subject.name.strategy")
_PLACES = {
    f"{part}.schema.id.{way}": names
    for part in ("key", "value")
    for way, names in (
        ("serializer", ("PrefixSchemaIdSerializer", "HeaderSchemaIdSerializer")),
        ("deserializer", ("DualSchemaIdDeserializer", "PrefixSchemaIdDeserializer")),
    )
}
"""Where a schema's id stands: the key, and what it may be; the first is the default."""
_AUTH = {
    *("basic.auth.credentials.source", "basic.auth.user.info", "schema.registry.basic.auth.user.info"),
    *("bearer.auth.credentials.source", "bearer.auth.token", "bearer.auth.issuer.endpoint.url"),
    *("bearer.auth.client.id", "bearer.auth.client.secret", "bearer.auth.scope"),
    *("bearer.auth.logical.cluster", "bearer.auth.identity.pool.id", "proxy.host", "proxy.port"),
}
_STANDING = {
    "context.name.strategy": "NullContextNameStrategy",
    "reference.subject.name.strategy": "DefaultReferenceSubjectNameStrategy",
}
"""What has one choice here: another one is refused, since schemas would come from other subjects."""
_IMPOSSIBLE = {
    "use.schema.guid": "name the schema by use.schema.id",
    "rule.executors": "rules of schemas are not carried out here",
    "rule.actions": "rules of schemas are not carried out here",
    "proxyBasicAuth": "a proxy with a password is not spoken to",
}
_IDLE = {
    "specific.avro.reader": "values are dictionaries; there are no generated classes",
    "specific.avro.key.type": "values are dictionaries; there are no generated classes",
    "specific.avro.value.type": "values are dictionaries; there are no generated classes",
    "schema.reflection": "values are dictionaries; there are no classes to look into",
    "avro.reflection.allow.null": "values are dictionaries; there are no classes to look into",
    "avro.remove.java.properties": "nothing here puts Java's properties into schemas",
    "json.value.type": "values are dictionaries; there are no generated classes",
    "json.key.type": "values are dictionaries; there are no generated classes",
    "derive.type": "values are dictionaries; there are no generated classes",
    "specific.protobuf.value.type": "messages are made of the schema itself",
    "specific.protobuf.key.type": "messages are made of the schema itself",
    "schema.registry.url.randomize": "addresses are tried in the order in which they stand",
    "auto.register.schemas.propagate.tags": "tags of schemas are the registry's",
    "propagate.schema.tags": "tags of schemas are the registry's",
}
KNOWN_KEYS = frozenset(
    {URL, METADATA, *_BOOLEANS, *_NUMBERS, *_STRATEGIES, *_PLACES, *_AUTH, *_STANDING, *_IMPOSSIBLE, *_IDLE}
)
"""The keys that mean something here, are refused, or are known to change nothing; and all of `schema.registry.ssl.`."""


@dataclass(frozen=True)
class SerdeSettings:
    """The settings of a key's or a value's serializer and deserializer."""

    urls: tuple[str, ...]
    """The registry's addresses as they may be shown: without logins, which `client` has."""
    is_key: bool = False
    auto_register: bool = True
    use_latest: bool = False
    latest_strict: bool = True
    latest_metadata: Mapping[str, str] = field(default_factory=dict)
    """What the metadata of the schema that is written with have to say; nothing: whatever they say."""
    use_id: int | None = None
    id_strict: bool = True
    normalize: bool = False
    validate_json: bool = False
    logical_types: bool = True
    named_unions: bool = False
    """Whether Avro's values of unions say their type; who wants that sets it, it has no key."""
    json_bytes: bool = False
    """Whether values of JSON Schema are the bytes of their JSON; who wants that sets it, it has no key."""
    strategy: SubjectStrategy = SubjectStrategy.TOPIC
    id_in_header: bool = False
    """Whether what is written names its schema in a header."""
    read_headers: bool = True
    schemas_max: int = 1000
    client: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The settings of Confluent's client."""
    tls: Mapping[str, str] = field(default_factory=dict, repr=False)
    """`ssl.*` without their prefix."""
    warnings: tuple[str, ...] = ()


def serde_settings(given: Mapping[str, Any], *, is_key: bool) -> SerdeSettings:
    """Return the settings of properties; raises ConfigError for what is wrong or cannot be kept to."""
    texts = {key: str(value).strip() for key, value in given.items() if value is not None}
    _refuse(texts)
    flags = {key: _flag(key, texts.get(key, ""), default) for key, default in _BOOLEANS.items()}
    numbers = {key: _number(key, texts.get(key, "")) for key in _NUMBERS}
    part = "key" if is_key else "value"
    places = {key: _place(key, texts.get(key, ""), names) for key, names in _PLACES.items()}
    strategy = f"{part}.subject.name.strategy"
    urls = _urls(texts.get(URL, ""))
    return SerdeSettings(
        tuple(without_login(each) for each in urls),
        is_key=is_key,
        auto_register=flags["auto.register.schemas"],
        use_latest=flags["use.latest.version"],
        latest_strict=flags["latest.compatibility.strict"],
        latest_metadata=_metadata(texts.get(METADATA, "")),
        use_id=numbers["use.schema.id"] if numbers["use.schema.id"] >= 0 else None,
        id_strict=flags["id.compatibility.strict"],
        normalize=flags["normalize.schemas"],
        validate_json=flags["json.fail.invalid.schema"],
        logical_types=flags["avro.use.logical.type.converters"],
        strategy=strategy_of(strategy, texts.get(strategy) or SubjectStrategy.TOPIC),
        id_in_header=places[f"{part}.schema.id.serializer"] == "HeaderSchemaIdSerializer",
        read_headers=places[f"{part}.schema.id.deserializer"] == "DualSchemaIdDeserializer",
        schemas_max=numbers["max.schemas.per.subject"],
        client=_client(texts, numbers, urls),
        tls={key.removeprefix("schema.registry."): value for key, value in texts.items() if key.startswith(TLS)},
        warnings=tuple(_warnings(texts)),
    )


def _refuse(texts: Mapping[str, str]) -> None:
    for key, reason in _IMPOSSIBLE.items():
        if texts.get(key):
            raise ConfigError(key, texts[key], reason)
    for key, only in _STANDING.items():
        if texts.get(key) and not texts[key].endswith(only):
            raise ConfigError(key, texts[key], f"only {only} is known here")


def _warnings(texts: Mapping[str, str]) -> list[str]:
    found = [f"{key} has no effect: {reason}" for key, reason in _IDLE.items() if key in texts]
    unknown = [key for key in texts if key not in KNOWN_KEYS and not key.startswith(TLS)]
    return found + [f"{key} is not a setting of a serializer or deserializer; it has no effect" for key in unknown]


def _urls(text: str) -> tuple[str, ...]:
    found = tuple(each.strip().rstrip("/") for each in text.split(",") if each.strip())
    if not found:
        raise ConfigError(URL, text, "the registry's addresses: http://host:8081,…")
    for each in found:
        if not re.fullmatch(r"https?://[^\s/]+(/\S*)?", each, re.IGNORECASE):
            raise ConfigError(URL, without_login(each), "http://host:port or https://host:port")
    return found


def without_login(text: str) -> str:
    """Return a text in which no address has a name and a password."""
    return re.sub(r"//[^/\s]*@", "//…@", text)


def _client(texts: Mapping[str, str], numbers: Mapping[str, int], urls: tuple[str, ...]) -> dict[str, Any]:
    """Return the settings of Confluent's client: the same things under its own names."""
    found: dict[str, Any] = {
        "url": ",".join(urls),
        "timeout": max(numbers["http.read.timeout.ms"], numbers["http.connect.timeout.ms"]) / 1000,
        "cache.capacity": numbers["latest.cache.size"],
        **{key: numbers[key] for key in ("max.retries", "retries.wait.ms", "retries.max.wait.ms")},
    }
    if numbers["latest.cache.ttl.sec"] >= 0:
        found["cache.latest.ttl.sec"] = numbers["latest.cache.ttl.sec"]
    if texts.get("proxy.host"):
        found["proxy"] = f"http://{texts['proxy.host']}:{texts.get('proxy.port') or 80}"
    return found | _basic(texts) | _bearer(texts)


def _basic(texts: Mapping[str, str]) -> dict[str, str]:
    source = texts.get("basic.auth.credentials.source", "URL").upper()
    info = texts.get("basic.auth.user.info") or texts.get("schema.registry.basic.auth.user.info")
    if source not in ("URL", "USER_INFO", "SASL_INHERIT"):
        raise ConfigError("basic.auth.credentials.source", source, "URL, USER_INFO or SASL_INHERIT")
    if source == "SASL_INHERIT":
        raise ConfigError("basic.auth.credentials.source", source, "USER_INFO, with basic.auth.user.info=name:password")
    if source == "URL":
        return {}
    if not info or ":" not in info:
        raise ConfigError("basic.auth.user.info", "[hidden]", "name:password")
    return {"basic.auth.user.info": info}


def _bearer(texts: Mapping[str, str]) -> dict[str, str]:
    source = texts.get("bearer.auth.credentials.source", "").upper()
    if not source and "bearer.auth.token" not in texts:
        return {}
    source = source or "STATIC_TOKEN"
    if source not in ("STATIC_TOKEN", "OAUTHBEARER"):
        raise ConfigError("bearer.auth.credentials.source", source, "STATIC_TOKEN or OAUTHBEARER")
    needed = (
        ("bearer.auth.token",)
        if source == "STATIC_TOKEN"
        else ("bearer.auth.client.id", "bearer.auth.client.secret", "bearer.auth.issuer.endpoint.url")
    )
    for key in needed:
        if not texts.get(key):
            raise ConfigError(key, "", f"it is needed with bearer.auth.credentials.source={source}")
    found = {key: texts.get(key, "") for key in (*needed, "bearer.auth.scope", "bearer.auth.logical.cluster")}
    if source == "STATIC_TOKEN":
        del found["bearer.auth.scope"]
    if texts.get("bearer.auth.identity.pool.id"):
        found["bearer.auth.identity.pool.id"] = texts["bearer.auth.identity.pool.id"]
    return {"bearer.auth.credentials.source": source, **found}


def _flag(key: str, text: str, default: bool) -> bool:
    if text.lower() not in ("", "true", "false"):
        raise ConfigError(key, text, "true or false")
    return text.lower() == "true" if text else default


def _number(key: str, text: str) -> int:
    default, least = _NUMBERS[key]
    if text and (not re.fullmatch(r"[+-]?[0-9]{1,10}", text) or int(text) < least):
        raise ConfigError(key, text, f"a whole number, {least} or more")
    return int(text) if text else default


def _metadata(text: str) -> dict[str, str]:
    found = {}
    for pair in filter(None, (each.strip() for each in text.split(","))):
        key, equals, value = pair.partition("=")
        if not key.strip() or not equals:
            raise ConfigError(METADATA, text, "key=value,…")
        found[key.strip()] = value.strip()
    return found


def _place(key: str, text: str, names: tuple[str, ...]) -> str:
    short = text.rpartition(".")[2] or names[0]
    if short not in names:
        raise ConfigError(key, text, f"one of {', '.join(names)}")
    return short
