"""Config providers (KIP-297): where `${file:…}`, `${dir:…}` and `${env:…}` are looked up, and only where that is allowed."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ottla.base import ConfigError, OttlaError
from ottla.config.placeholders import Placeholder, placeholders, resolved
from ottla.config.properties import parse_properties

__all__ = [
    *("DirectoryProvider", "EnvironmentProvider", "FileProvider", "Provider", "ProviderError", "Providers"),
    *("found", "providers_of"),
]

VALUE_BYTES_MAX = 1 << 20
KNOWN_MAX = 1000
"""Values that are remembered."""
PREFIX = "config.providers."
_CONFIG = "org.apache.kafka.common.config.provider."


class ProviderError(OttlaError):
    """A value that stands elsewhere cannot be read there."""


class Provider(Protocol):
    """Finds values by path and key."""

    def get(self, path: str, key: str) -> str | None:
        """Return the value, None where there is none; raises ProviderError where it cannot be read."""
        ...


class _Allowed:
    """The folders under which a provider may read; all of them where none are named, as in Kafka."""

    def __init__(self, paths: str | None) -> None:
        self.roots = [Path(each.strip()).resolve() for each in (paths or "").split(",") if each.strip()]
        missing = [str(root) for root in self.roots if not root.exists()]
        if missing:
            raise ConfigError("allowed.paths", ",".join(missing), "Path does not exist")

    def path(self, text: str) -> Path | None:
        """Return the real path, links followed, or None where it lies outside."""
        try:
            found = Path(text).resolve()
            os.fsencode(found)
        except (ValueError, OSError, RuntimeError):
            return None  # a zero, half a character, a loop of links: no file has such a name
        if self.roots and not any(found.is_relative_to(root) for root in self.roots):
            return None
        return found


def _read(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise ProviderError(f"{path} is no regular file")  # a pipe would be waited for, by the whole broker
        with path.open("rb") as file:
            data = file.read(VALUE_BYTES_MAX + 1)
    except OSError as error:
        raise ProviderError(f"Could not read properties from file {path}") from error
    if len(data) > VALUE_BYTES_MAX:
        raise ProviderError(f"File {path} is larger than {VALUE_BYTES_MAX} bytes")
    return data.decode("utf-8", "replace")


class FileProvider:
    """`${file:/path/to.properties:key}`: a key of a properties file."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._allowed = _Allowed(settings.get("allowed.paths"))

    def get(self, path: str, key: str) -> str | None:
        """See `Provider`."""
        allowed = self._allowed.path(path) if path else None
        if allowed is None:
            return None
        text = _read(allowed)
        try:
            return parse_properties(text).get(key)
        except ConfigError:
            raise ProviderError(f"File {allowed} is not written as properties are") from None  # it would show the value


class DirectoryProvider:
    """`${dir:/folder:name}`: the whole content of a file in a folder, as Kubernetes mounts secrets."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._allowed = _Allowed(settings.get("allowed.paths"))

    def get(self, path: str, key: str) -> str | None:
        """See `Provider`; a name with a way out of the folder finds nothing."""
        if not path or not key or "/" in key or key in (".", ".."):
            return None
        allowed = self._allowed.path(str(Path(path) / key))
        try:
            return _read(allowed) if allowed is not None and allowed.is_file() else None
        except OSError as error:
            raise ProviderError(f"Could not read {allowed}") from error


class EnvironmentProvider:
    """`${env:NAME}`: an environment variable that matches `allowlist.pattern`."""

    def __init__(self, settings: Mapping[str, str], environment: Mapping[str, str] | None = None) -> None:
        pattern = settings.get("allowlist.pattern") or ".*"
        from ottla.java import PatternError, compile_java  # what few need

        try:
            self._pattern = compile_java(pattern)
        except PatternError as error:
            raise ConfigError("allowlist.pattern", pattern, f"not a regular expression: {error}") from error
        self._environment = os.environ if environment is None else environment

    def get(self, path: str, key: str) -> str | None:
        """See `Provider`; a path has no meaning and finds nothing."""
        return self._environment.get(key) if not path and self._pattern.fullmatch(key) else None


_KINDS = (_CONFIG + "FileConfigProvider", _CONFIG + "DirectoryConfigProvider", _CONFIG + "EnvVarConfigProvider")


class Providers:
    """The providers of a configuration by name."""

    def __init__(self, named: Mapping[str, Provider]) -> None:
        self._named = dict(named)
        self._known: dict[Placeholder, str | None] = {}
        """What was looked up last: whoever may not wait for a file takes it from here."""

    def __contains__(self, name: str) -> bool:
        return name in self._named

    def lookup(self, placeholder: Placeholder, *, anew: bool = True) -> str | None:
        """Return a placeholder's value; None where its provider is not configured, so that it stays as it is.

        Without `anew` it is what was found before, where it was looked up at all.
        """
        if not anew and placeholder in self._known:
            return self._known[placeholder]
        provider = self._named.get(placeholder.provider)
        found = None if provider is None else provider.get(placeholder.path, placeholder.key)
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[placeholder] = found
        return found


def providers_of(given: Mapping[str, str], environment: Mapping[str, str] | None = None) -> Providers:
    """Return the providers of a configuration's `config.providers`; raises ConfigError for one that is not known.

    Without `environment` it is the process's own.
    """
    named: dict[str, Provider] = {}
    names: Sequence[str] = [each.strip() for each in given.get("config.providers", "").split(",") if each.strip()]
    for name in names:
        prefix = f"{PREFIX}{name}."
        kind = given.get(prefix + "class", "").strip()
        if not kind:
            text = f'Missing required configuration "{prefix}class" which has no default value.'
            raise ConfigError(prefix + "class", None, "", text)
        if kind not in _KINDS:
            raise ConfigError(prefix + "class", kind, f"one of {', '.join(_KINDS)}")
        below = prefix + "param."
        settings = {key[len(below) :]: value for key, value in given.items() if key.startswith(below)}
        named[name] = _provider(kind, settings, environment)
    return Providers(named)


def _provider(kind: str, settings: Mapping[str, str], environment: Mapping[str, str] | None) -> Provider:
    if kind == _KINDS[0]:
        return FileProvider(settings)
    return DirectoryProvider(settings) if kind == _KINDS[1] else EnvironmentProvider(settings, environment)


def found(values: Mapping[str, str], providers: Providers, *, anew: bool = True) -> dict[str, str]:
    """Return those of the values that hold placeholders of these providers, with what was found in their place.

    Files are read, but without `anew` only for what was not looked up before. Raises ConfigError, which names the key and
    the placeholder, for what is not there; Kafka starts with the text itself.
    """
    looked_up: dict[str, str] = {}
    for key, value in values.items():
        places = (
            []
            if key.startswith(PREFIX)
            else [each for each in placeholders({key: value}) if each.provider in providers]
        )
        if places:
            there = {each: _there(key, each, providers, anew=anew) for each in places}
            looked_up[key] = str(resolved({key: value}, there.get)[key])
    return looked_up


def _there(key: str, placeholder: Placeholder, providers: Providers, *, anew: bool) -> str:
    try:
        value = providers.lookup(placeholder, anew=anew)
    except ProviderError as error:
        raise ConfigError(key, str(placeholder), "", f"{key}: {placeholder} cannot be looked up: {error}") from error
    if value is None:
        text = f"{key}: {placeholder} is not there, or its provider may not read it"
        raise ConfigError(key, str(placeholder), "", text)
    return value
