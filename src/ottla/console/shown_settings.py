"""The one place where the console decides which values of settings are shown: of brokers, topics, connectors, services."""

from __future__ import annotations

from collections.abc import Mapping

from ottla.admin.actions import hidden_names, shown_value

__all__ = ["holds_secret", "shown_settings"]


def shown_settings(settings: Mapping[str, object], types: Mapping[str, str] | None = None) -> dict[str, object]:
    """Return settings as they are shown: of a secret only that it is one.

    `types` are those that are known, by name: one of another type than PASSWORD is no secret by its name alone.
    """
    known = types or {}
    hidden = hidden_names([each for each in settings if each not in known])
    hidden |= {name for name, type_ in known.items() if type_ == "PASSWORD"}
    return {name: shown_value(value, is_hidden=name in hidden) for name, value in settings.items()}


def holds_secret(settings: Mapping[str, object], types: Mapping[str, str] | None = None) -> bool:
    """Return whether one of them would not be shown as it is."""
    return shown_settings(settings, types) != dict(settings)
