"""What of a configuration nobody may see, and of an answer to one that was validated."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ottla.config import ConfigType, hidden, hidden_text, shown
from ottla.connect.config_def import ConfigDef

__all__ = ["concealed", "masked"]

OTHERS_CHARACTERS_MIN = 4
"""How long another key's secret is at least that is looked for: `1` and `no` are in every second sentence."""
Properties = Mapping[str, str | None]


def masked(props: Properties, definition: ConfigDef | None = None) -> dict[str, str | None]:
    """Return a configuration to show: secrets are `[hidden]`, but placeholders are none and stay."""
    return shown(props, {} if definition is None else {name: key.type for name, key in definition.keys.items()})


def concealed(infos: Mapping[str, Any], given: Properties, resolved: Properties) -> dict[str, Any]:
    """Return a validation's answer without secrets; of what a placeholder stands for it shows the placeholder.

    An error of one key may hold the secret of another, such as a URL that was made of both.
    """
    kinds = {
        each["value"]["name"]: None if each["definition"] is None else each["definition"]["type"]
        for each in infos["configs"]
        if each["value"]
    }
    secrets = {name: found for name in resolved if (found := _secret(name, kinds.get(name), given, resolved))}
    return {**infos, "configs": [_concealed(each, given, resolved, secrets) for each in infos["configs"]]}


def _secret(name: str, kind: str | None, given: Properties, resolved: Properties) -> tuple[str, str] | None:
    """Return what of a key nobody may see, and what is shown in its place; None where all may be seen."""
    text = (resolved.get(name) or "").strip()
    if not text:
        return None
    if given.get(name) != resolved.get(name):
        return text, given.get(name) or ""
    shown_text = hidden(name, text, kind)
    return None if shown_text == text else (text, shown_text or "")


def _concealed(
    info: Mapping[str, Any], given: Properties, resolved: Properties, secrets: Mapping[str, tuple[str, str]]
) -> dict[str, Any]:
    value = info["value"]
    if not value:
        return dict(info)
    name, kind = value["name"], None if info["definition"] is None else info["definition"]["type"]
    before = given.get(name)
    told = before if before != resolved.get(name) else hidden(name, value["value"], kind)
    replaced = [secret for key, secret in secrets.items() if key == name or len(secret[0]) >= OTHERS_CHARACTERS_MIN]
    replaced.sort(key=lambda secret: -len(secret[0]))  # one may be a part of another
    errors = [hidden_text(_replaced(each, replaced)) for each in value["errors"]]
    kept = value["value"] is None or kind == ConfigType.PASSWORD.name
    return {**info, "value": {**value, "value": value["value"] if kept else told, "errors": errors}}


def _replaced(words: str, secrets: list[tuple[str, str]]) -> str:
    for secret, told in secrets:
        words = words.replace(secret, told)
    return words
