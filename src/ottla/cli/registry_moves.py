"""Everything that a schema registry holds, as values, out of one and into another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

from ottla.admin import RestError, Worker
from ottla.cli.options import UsageError

__all__ = ["exported", "take_in"]

PAGE = 500
CARRIED = ("schemaType", "references", "metadata", "ruleSet", "schema")


def exported(registry: Worker) -> Iterator[dict[str, Any]]:
    """Yield schemas, those that others may refer to first, then configurations and modes."""
    live = {(each["subject"], each["version"]) for each in _schemas(registry, deleted=False)}
    found = sorted(_schemas(registry, deleted=True), key=lambda each: (each["id"], each["subject"], each["version"]))
    for each in found:
        deleted = {} if (each["subject"], each["version"]) in live else {"deleted": True}
        yield {"kind": "schema", **each, **deleted}
    contexts = [f":{each}:" for each in registry.ask("GET", "/contexts") if each != "."]
    for subject in (None, *contexts, *dict.fromkeys(each["subject"] for each in found)):
        named = {} if subject is None else {"subject": subject}
        for kind in ("config", "mode"):
            settings = _own(registry, kind, subject)
            if settings:
                yield {"kind": kind, **named, **settings}


def _schemas(registry: Worker, *, deleted: bool) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while True:
        query = f"deleted={str(deleted).lower()}&offset={len(found)}&limit={PAGE}"
        page = registry.ask("GET", f"/schemas?{query}")
        found += page
        if not page:
            return found


def _own(registry: Worker, kind: str, subject: str | None) -> dict[str, Any]:
    """Return a configuration or mode, nothing where a subject has none of its own."""
    try:
        found: dict[str, Any] = registry.ask("GET", _settings_path(kind, subject))
    except RestError as error:
        if error.status != 404:
            raise
        return {}
    return found


def _settings_path(kind: str, subject: str | None) -> str:
    return f"/{kind}" if subject is None else f"/{kind}/{quote(subject, safe='')}"


def take_in(registry: Worker, entries: Iterable[Mapping[str, Any]]) -> int:
    """Register everything with its ids and versions; returns how many versions that were. Raises RestError."""
    entries = list(entries)
    if any(not isinstance(each, Mapping) or each.get("kind") not in ("schema", "config", "mode") for each in entries):
        raise UsageError("Each line has to be a JSON object with the kind schema, config or mode")
    schemas = [each for each in entries if each["kind"] == "schema"]
    if any(key not in each for each in schemas for key in ("subject", "version", "id", "schema")):
        raise UsageError("A schema has to have a subject, a version, an id and its text")
    names: list[str] = list(dict.fromkeys(each["subject"] for each in schemas))
    opened: list[str] = []
    try:
        for each in names:
            registry.ask("PUT", _settings_path("mode", each), {"mode": "IMPORT"})
            opened.append(each)
        for entry in schemas:
            body = {
                "id": entry["id"],
                "version": entry["version"],
                **{key: entry[key] for key in CARRIED if key in entry},
            }
            registry.ask("POST", f"/subjects/{quote(entry['subject'], safe='')}/versions", body)
    finally:
        for each in opened:
            registry.ask("DELETE", _settings_path("mode", each))
    for entry in reversed(schemas):
        if entry.get("deleted"):
            registry.ask("DELETE", f"/subjects/{quote(entry['subject'], safe='')}/versions/{entry['version']}")
    for entry in entries:
        if entry["kind"] != "schema":
            settings = {key: value for key, value in entry.items() if key not in ("kind", "subject")}
            if entry["kind"] == "config":
                settings["compatibility"] = settings.pop("compatibilityLevel", None)
            registry.ask("PUT", _settings_path(entry["kind"], entry.get("subject")), settings)
    return len(schemas)
