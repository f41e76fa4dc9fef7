"""What of a configuration nobody may see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ottla.config import ConfigType, is_placeholder
from ottla.connect.config_def import ConfigDef

__all__ = ["masked", "sensitive_keys"]

HIDDEN = "[hidden]"
_SECRET = re.compile(
    r"password|passwd|secret|token|credential|private[._-]?key|access[._-]?key|sasl\.jaas\.config|api[._-]?key"
)


def sensitive_keys(props: Mapping[str, str | None], definition: ConfigDef | None = None) -> set[str]:
    """Return the keys whose values nobody is shown: passwords by type, and by name where no type is known."""
    typed = {} if definition is None else definition.keys
    found = set()
    for key in props:
        if key in typed:
            if typed[key].type is ConfigType.PASSWORD:
                found.add(key)
        elif _SECRET.search(key.lower()):
            found.add(key)
    return found


def masked(props: Mapping[str, str | None], hidden: Iterable[str]) -> dict[str, str | None]:
    """Return a configuration to show: hidden values are `[hidden]`, but placeholders are no secrets and stay."""
    secret = set(hidden)

    def shown(key: str, value: str | None) -> str | None:
        if key not in secret or not value or is_placeholder(value):
            return value
        return HIDDEN

    return {key: shown(key, value) for key, value in props.items()}
