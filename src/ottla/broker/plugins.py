"""Classes of somebody else's that a broker is configured with: found among the entry points of installed packages.

A name in the configuration is looked up there and never imported as it is: what runs in a broker was installed for it.
"""

from __future__ import annotations

from importlib import metadata
from typing import Any

from ottla.base import ConfigError
from ottla.config import BrokerConfig

__all__ = ["plugin"]


def plugin(config: BrokerConfig, key: str, name: str, group: str, *methods: str) -> Any:
    """Return a configured instance of the class that an entry point of this group names, by its own name or the class's.

    Raises ConfigError where there is none, where it cannot be made, and where it lacks one of the methods.
    """
    found = next((each for each in metadata.entry_points(group=group) if name in (each.name, _class_name(each))), None)
    if found is None:
        raise ConfigError(key, name, f"is none of the entry points {group} of the packages that are installed here")
    try:
        made = found.load()()
    except Exception as error:  # another's code: whatever it raises, the node must not start without it
        raise ConfigError(key, name, f"cannot be made: {error}") from error
    missing = [each for each in methods if not callable(getattr(made, each, None))]
    if missing:
        raise ConfigError(key, name, f"has no method {missing[0]}")
    configure = getattr(made, "configure", None)
    if configure is not None:
        try:
            configure(dict(config.static))
        except Exception as error:  # likewise
            raise ConfigError(key, name, f"refuses its configuration: {error}") from error
    return made


def _class_name(entry: metadata.EntryPoint) -> str:
    return entry.value.replace(":", ".")
