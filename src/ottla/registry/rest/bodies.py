"""What clients send: JSON bodies, taken as Confluent's registry takes them; fields that nobody knows are passed over."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from math import isfinite
from typing import Any

from ottla.registry.core import RegistryError, Wanted
from ottla.registry.core.errors import invalid_rule_set, not_permitted
from ottla.registry.core.records import AVRO, INT_MAX
from ottla.schemas import SchemaReference

__all__ = ["metadata_of", "read_body", "rule_set_of", "wanted_of"]

KINDS = ("TRANSFORM", "CONDITION")
MIGRATION_MODES = ("UPGRADE", "DOWNGRADE", "UPDOWN")
DOMAIN_MODES = ("READ", "WRITE", "WRITEREAD")
FAMILIES = {"migrationRules": MIGRATION_MODES, "domainRules": DOMAIN_MODES, "encodingRules": DOMAIN_MODES}
REFERENCES_MAX = 1_000
UNKEPT = ("schemaTagsToAdd", "schemaTagsToRemove")
"""What would change the schema on its way into the registry, so that passing over it would register another one."""


def read_body(data: bytes, what: str) -> dict[str, Any]:
    """Return the object of a body; raises RegistryError 400 for what is none, 422 where there is nothing."""
    if not data.strip():
        raise RegistryError(422, f"{what} must not be null")
    try:
        found = json.loads(data, parse_constant=_refused, parse_float=_finite)
        json.dumps(found, ensure_ascii=False).encode()  # half a surrogate pair can be written in JSON, and nowhere else
    except (ValueError, RecursionError) as error:
        raise RegistryError(400, "The request's body is not JSON") from error
    if not isinstance(found, dict):
        raise RegistryError(400, "The request's body has to be a JSON object")
    return found


def _refused(text: str) -> float:
    raise ValueError(text)


def _finite(text: str) -> float:
    return value if isfinite(value := float(text)) else _refused(text)


def _text(value: Any, name: str) -> str:
    """Return a plain value as text, as Jackson reads one into a String."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    raise RegistryError(400, f"{name} must be text")


def _whole(value: Any, name: str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError, OverflowError):
        raise RegistryError(400, f"{name} must be a whole number") from None
    if not -INT_MAX - 1 <= number <= INT_MAX:
        raise RegistryError(400, f"{name} must be a whole number of 32 bits")
    return number


def _object(value: Any, name: str) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise RegistryError(400, f"{name} must be an object")
    return value


def _list(value: Any, name: str) -> list[Any]:
    if not isinstance(value, list):
        raise RegistryError(400, f"{name} must be a list")
    return value


def wanted_of(body: Mapping[str, Any]) -> Wanted:
    """Return the schema of a body that registers, looks up or compares one; raises RegistryError."""
    version, given = body.get("version"), body.get("id")
    number = 0 if version is None else max(_whole(version, "version"), 0)
    schema_id = None if given is None else _whole(given, "id")
    references = _list(body.get("references") or [], "references")
    unkept = next((each for each in UNKEPT if body.get(each)), None)
    if unkept is not None:
        raise not_permitted(f"{unkept} is not carried out here: say the tags in the schema, or in its metadata")
    if len(references) > REFERENCES_MAX:
        raise RegistryError(422, f"A schema has at most {REFERENCES_MAX} references")
    return Wanted(
        "" if body.get("schema") is None else _text(body["schema"], "schema"),
        _text(body.get("schemaType") or AVRO, "schemaType").upper(),
        tuple(_reference(_object(each, "a reference")) for each in references),
        metadata_of(body.get("metadata")),
        rule_set_of(body.get("ruleSet")),
        number,
        None if schema_id is None or schema_id < 0 else schema_id,
    )


def _reference(found: Mapping[str, Any]) -> SchemaReference:
    missing = [each for each in ("name", "subject", "version") if found.get(each) is None]
    if missing:
        raise RegistryError(422, f"A reference has no {missing[0]}")
    version = _whole(found["version"], "version")
    return SchemaReference(_text(found["name"], "name"), _text(found["subject"], "subject"), version)


def metadata_of(value: Any) -> dict[str, Any] | None:
    """Return metadata as it is kept: maps and sets in order, nothing that is empty."""
    if value is None:
        return None
    given = _object(value, "metadata")
    tags = {
        _text(key, "a tag"): sorted({_text(each, "a tag") for each in _list(found or [], "tags")})
        for key, found in sorted(_object(given.get("tags") or {}, "tags").items())
    }
    properties = {
        key: _text(each, "a property")
        for key, each in sorted(_object(given.get("properties") or {}, "properties").items())
    }
    sensitive = sorted({_text(each, "sensitive") for each in _list(given.get("sensitive") or [], "sensitive")})
    found = {"tags": tags, "properties": properties, "sensitive": sensitive}
    return {key: each for key, each in found.items() if each} or None


def rule_set_of(value: Any) -> dict[str, Any] | None:
    """Return rules as they are kept; clients carry them out. Raises RegistryError 42210 for some that cannot be."""
    if value is None:
        return None
    given = _object(value, "ruleSet")
    found = {family: _rules(given.get(family), family) for family in FAMILIES}
    names = [rule["name"] for rules in found.values() for rule in rules]
    twice = next((each for each, count in Counter(names).items() if count > 1), None)
    if twice is not None:
        raise invalid_rule_set(f"Found rule with duplicate name '{twice}'")
    return {key: each for key, each in found.items() if each} or None


def _rules(value: Any, family: str) -> list[dict[str, Any]]:
    return [_rule(_object(each, "a rule"), family) for each in _list(value or [], family)]


def _rule(given: Mapping[str, Any], family: str) -> dict[str, Any]:
    rule: dict[str, Any] = {}
    for key in ("name", "doc", "kind", "mode", "type"):
        if given.get(key) is not None:
            rule[key] = _text(given[key], key)
    if given.get("tags"):
        rule["tags"] = sorted({_text(each, "a tag") for each in _list(given["tags"], "tags")})
    if given.get("params"):
        rule["params"] = {
            key: _text(each, "a parameter") for key, each in sorted(_object(given["params"], "params").items())
        }
    for key in ("expr", "onSuccess", "onFailure"):
        if given.get(key) is not None:
            rule[key] = _text(given[key], key)
    rule["disabled"] = given.get("disabled") is True
    if not rule.get("name"):
        raise invalid_rule_set("Missing rule name")
    if not rule.get("type"):
        raise invalid_rule_set("Missing rule type")
    rule["kind"] = rule.get("kind", "TRANSFORM").upper()
    rule["mode"] = rule.get("mode", FAMILIES[family][-1]).upper()
    if rule["kind"] not in KINDS:
        raise invalid_rule_set(f"The kind of rule '{rule['name']}' is none of {', '.join(KINDS)}")
    if rule["mode"] not in FAMILIES[family]:
        raise invalid_rule_set(
            f"The mode of rule '{rule['name']}' in {family} is none of {', '.join(FAMILIES[family])}"
        )
    return rule
