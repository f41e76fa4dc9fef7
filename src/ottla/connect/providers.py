"""Config providers: where `${file:…}`, `${dir:…}` and `${env:…}` are looked up, and only where the worker allows it."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

from ottla.base import ConfigError
from ottla.config import parse_properties
from ottla.connect.errors import ConnectError, config_error
from ottla.connect.handling import Placeholder

__all__ = ["DirectoryProvider", "EnvironmentProvider", "FileProvider", "Provider", "Providers", "providers_of"]

VALUE_BYTES_MAX = 1 << 20
_CONFIG = "org.apache.kafka.common.config.provider."


class Provider(Protocol):
    """Finds values by path and key."""

    def get(self, path: str, key: str) -> str | None:
        """Return the value, None where there is none; raises ConnectError where it cannot be read."""
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
        found = Path(text).resolve()
        if self.roots and not any(found.is_relative_to(root) for root in self.roots):
            return None
        return found


def _read(path: Path) -> str:
    try:
        with path.open("rb") as file:
            data = file.read(VALUE_BYTES_MAX + 1)
    except OSError as error:
        raise ConnectError(f"Could not read properties from file {path}") from error
    if len(data) > VALUE_BYTES_MAX:
        raise ConnectError(f"File {path} is larger than {VALUE_BYTES_MAX} bytes")
    return data.decode("utf-8", "replace")


class FileProvider:
    """`${file:/path/to.properties:key}`: a key of a properties file."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._allowed = _Allowed(settings.get("allowed.paths"))

    def get(self, path: str, key: str) -> str | None:
        """See `Provider`."""
        allowed = self._allowed.path(path) if path else None
        return None if allowed is None else parse_properties(_read(allowed)).get(key)


class DirectoryProvider:
    """`${dir:/folder:name}`: the whole content of a file in a folder, as Kubernetes mounts secrets."""

    def __init__(self, settings: Mapping[str, str]) -> None:
        self._allowed = _Allowed(settings.get("allowed.paths"))

    def get(self, path: str, key: str) -> str | None:
        """See `Provider`; a name with a way out of the folder finds nothing."""
        if not path or not key or "/" in key or key in (".", ".."):
            return None
        allowed = self._allowed.path(str(Path(path) / key))
        return _read(allowed) if allowed is not None and allowed.is_file() else None


class EnvironmentProvider:
    """`${env:NAME}`: an environment variable that matches `allowlist.pattern`."""

    def __init__(self, settings: Mapping[str, str], environment: Mapping[str, str] | None = None) -> None:
        self._pattern = re.compile(settings.get("allowlist.pattern") or ".*")
        self._environment = os.environ if environment is None else environment

    def get(self, path: str, key: str) -> str | None:
        """See `Provider`; a path has no meaning and finds nothing."""
        return self._environment.get(key) if not path and self._pattern.fullmatch(key) else None


_KINDS: dict[str, type[FileProvider] | type[DirectoryProvider] | type[EnvironmentProvider]] = {
    _CONFIG + "FileConfigProvider": FileProvider,
    _CONFIG + "DirectoryConfigProvider": DirectoryProvider,
    _CONFIG + "EnvVarConfigProvider": EnvironmentProvider,
}


class Providers:
    """A worker's providers by name."""

    def __init__(self, named: Mapping[str, Provider]) -> None:
        self._named = dict(named)

    def lookup(self, placeholder: Placeholder) -> str | None:
        """Return a placeholder's value; None where its provider is not configured, so that it stays as it is."""
        provider = self._named.get(placeholder.provider)
        return None if provider is None else provider.get(placeholder.path, placeholder.key)


def providers_of(worker: Mapping[str, str]) -> Providers:
    """Return the providers of a worker's `config.providers`; raises ConfigError for one that is not known."""
    named: dict[str, Provider] = {}
    names: Sequence[str] = [each.strip() for each in worker.get("config.providers", "").split(",") if each.strip()]
    for name in names:
        prefix = f"config.providers.{name}."
        kind = worker.get(prefix + "class")
        if kind is None:
            raise config_error(f'Missing required configuration "{prefix}class" which has no default value.')
        if kind not in _KINDS:
            raise ConfigError(prefix + "class", kind, f"one of {', '.join(_KINDS)}")
        below = prefix + "param."
        named[name] = _KINDS[kind]({key[len(below) :]: value for key, value in worker.items() if key.startswith(below)})
    return Providers(named)
