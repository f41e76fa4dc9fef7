"""What of a configuration nobody may see, and of an answer to one that was validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.config import ConfigType, hidden, hidden_text, shown
from ottla.connect.config_def import ConfigDef

__all__ = ["concealed", "masked"]

Properties = Mapping[str, str | None]


def masked(props: Properties, definition: ConfigDef | None = None) -> dict[str, str | None]:
    """Return a configuration to show: secrets are `[hidden]`, but placeholders are none and stay."""
    return shown(props, {} if definition is None else {name: key.type for name, key in definition.keys.items()})


def concealed(infos: Mapping[str, Any], given: Properties, resolved: Properties) -> dict[str, Any]:
    """Return a validation's answer without secrets; of what a placeholder stands for it shows the placeholder."""
    return {**infos, "configs": [_concealed(each, given, resolved) for each in infos["configs"]]}


def _concealed(info: Mapping[str, Any], given: Properties, resolved: Properties) -> dict[str, Any]:
    value = info["value"]
    if not value:
        return dict(info)
    name, kind = value["name"], None if info["definition"] is None else info["definition"]["type"]
    before, text = given.get(name), (resolved.get(name) or "").strip()
    elsewhere = before != resolved.get(name)
    told = before if elsewhere else hidden(name, value["value"], kind)
    replaced = [(text, told or "")] if text and (elsewhere or hidden(name, text, kind) != text) else []
    errors = [hidden_text(_replaced(each, replaced)) for each in value["errors"]]
    kept = value["value"] is None or kind == ConfigType.PASSWORD.name
    return {**info, "value": {**value, "value": value["value"] if kept else told, "errors": errors}}


def _replaced(words: str, secrets: list[tuple[str, str]]) -> str:
    for secret, told in secrets:
        words = words.replace(secret, told)
    return words
