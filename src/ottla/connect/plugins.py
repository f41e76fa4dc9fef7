"""Which plugins are installed: Kafka's stock ones, entry points of installed packages, and what lies on `plugin.path`.

They are all loaded once, when the worker starts. A name that a client sends is looked up among them and never imported.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum
from importlib import metadata
from pathlib import Path
from types import ModuleType
from typing import Any

from ottla.connect import converters, schema_converters
from ottla.connect.api import SinkConnector, SourceConnector
from ottla.connect.errors import ConnectError
from ottla.connect.transforms import PREDICATES, TRANSFORMATIONS

__all__ = ["ENTRY_POINTS", "InstalledPlugin", "PluginKind", "Plugins", "discover", "installed_entries", "stock_plugins"]

ENTRY_POINTS = "ottla.connect"
"""The group of entry points: each names a plugin's class."""


class PluginKind(Enum):
    """What a plugin is for, in the words of `/connector-plugins` and in its order."""

    SINK = "sink"
    SOURCE = "source"
    TRANSFORMATION = "transformation"
    PREDICATE = "predicate"
    CONVERTER = "converter"
    HEADER_CONVERTER = "header_converter"


_WORDS = {
    PluginKind.TRANSFORMATION: "Transformation",
    PluginKind.PREDICATE: "Predicate",
    PluginKind.CONVERTER: "Converter",
    PluginKind.HEADER_CONVERTER: "HeaderConverter",
}
_CONNECTORS = (PluginKind.SINK, PluginKind.SOURCE)


@dataclass(frozen=True, slots=True)
class InstalledPlugin:
    """A class that configurations may name."""

    name: str
    """Java's class name where Kafka has the plugin, else `module.Class`."""

    kind: PluginKind
    cls: type[Any]
    location: str
    """Where it was found: `classpath` for the stock ones, as in Kafka."""

    @property
    def version(self) -> str:
        """The plugin's own version."""
        return str(getattr(self.cls, "version", "undefined"))

    @property
    def names(self) -> frozenset[str]:
        """Every name it answers to: its own, other full names, and the class's name without its package and kind."""
        simple = self.name.rpartition(".")[2]
        word = "Connector" if self.kind in _CONNECTORS else _WORDS[self.kind]
        python = f"{self.cls.__module__}.{self.cls.__qualname__}"
        others: tuple[str, ...] = getattr(self.cls, "aliases", ())
        shortened = simple.removesuffix(word) or simple
        return frozenset((self.name, python, simple, shortened, *others))

    def __str__(self) -> str:
        shown = f"class={self.name}, version='{self.version}', type={self.kind.value}, location='{self.location}'"
        return f"PluginDesc{{{shown}}}"


class Plugins:
    """The installed plugins. `broken` says what could not be loaded, and why."""

    def __init__(self, installed: Iterable[InstalledPlugin], broken: Iterable[tuple[str, str]] = ()) -> None:
        self.installed = tuple(dict.fromkeys(installed))
        self.broken = tuple(broken)
        by_name = sorted(self.installed, key=lambda each: each.name)
        self._of_kind = {kind: [each for each in by_name if each.kind is kind] for kind in PluginKind}

    def of_kind(self, *kinds: PluginKind) -> list[InstalledPlugin]:
        """Return the plugins of some kinds, by kind and name."""
        return [each for kind, found in self._of_kind.items() if kind in kinds for each in found]

    def connector(self, name: str) -> InstalledPlugin:
        """Return the connector of a class name or alias; raises ConnectError in Kafka's words."""
        connectors = self.of_kind(*_CONNECTORS)
        found = [each for each in connectors if name == each.name] or [
            each for each in connectors if name in each.names
        ]
        listed = ", ".join(map(str, connectors))
        if not found:
            raise ConnectError(
                f"Failed to find any class that implements Connector and which name matches {name}, available connectors "
                f"are: {listed}"
            )
        if len(found) > 1:
            raise ConnectError(
                f"More than one connector matches alias {name}. Please use full package and class name instead. Classes "
                f"found: {listed}"
            )
        return found[0]

    def find(self, kind: PluginKind, name: str) -> type[Any] | None:
        """Return the class of a plugin by its class name or alias, None where none is installed or several answer."""
        found = [each for each in self.of_kind(kind) if name == each.name]
        found = found or [each for each in self.of_kind(kind) if name in each.names]
        return found[0].cls if len(found) == 1 else None

    def require(self, kind: PluginKind, name: str) -> type[Any]:
        """Return the class of a plugin; raises ConnectError in Kafka's words where it is not installed."""
        found = self.find(kind, name)
        if found is None:
            listed = ", ".join(each.name for each in self.of_kind(kind))
            raise ConnectError(
                f"Failed to find any class that implements {_WORDS.get(kind, 'Connector')} and which name matches {name}, "
                f"available plugins are: {listed}"
            )
        return found

    def any_kind(self, name: str) -> InstalledPlugin | None:
        """Return a plugin of any kind by its name, for `/connector-plugins/{name}/config`."""
        exact = [each for each in self.installed if each.name == name]
        found = exact or [each for each in self.installed if name in each.names]
        return found[0] if found else None

    def class_of(self, name: str) -> type[Any] | None:
        """Return the class of a plugin of any kind, for a key of type CLASS; None where none is installed."""
        found = self.any_kind(name)
        return None if found is None else found.cls

    def listing(self, *, connectors_only: bool) -> list[dict[str, str]]:
        """Return the answer of `/connector-plugins`."""
        kinds = _CONNECTORS if connectors_only else tuple(PluginKind)
        return [{"class": each.name, "type": each.kind.value, "version": each.version} for each in self.of_kind(*kinds)]


def _kinds_of(cls: type[Any]) -> Iterator[PluginKind]:
    """Yield what a class is for, judged by what it inherits from or can do."""
    if issubclass(cls, SinkConnector):
        yield PluginKind.SINK
    elif issubclass(cls, SourceConnector):
        yield PluginKind.SOURCE
    else:
        capabilities = (
            (PluginKind.TRANSFORMATION, ("configure", "apply")),
            (PluginKind.PREDICATE, ("configure", "test")),
            (PluginKind.CONVERTER, ("configure", "from_connect", "to_connect")),
            (PluginKind.HEADER_CONVERTER, ("configure_header", "from_header", "to_header")),
        )
        for kind, needed in capabilities:
            if all(callable(getattr(cls, name, None)) for name in needed):
                yield kind


def _installed(cls: type[Any], location: str) -> Iterator[InstalledPlugin]:
    name = getattr(cls, "java_name", "") or f"{cls.__module__}.{cls.__qualname__}"
    for kind in _kinds_of(cls):
        yield InstalledPlugin(name, kind, cls, location)


def stock_plugins() -> list[InstalledPlugin]:
    """Return the converters, transformations and predicates that Kafka brings along, and the registry's converters."""
    stock = [getattr(converters, name) for name in converters.__all__]
    of_registry = [getattr(schema_converters, name) for name in schema_converters.__all__]
    classes = [*stock, *of_registry, *TRANSFORMATIONS, *PREDICATES]
    return [each for cls in classes for each in _installed(cls, "classpath")]


def installed_entries() -> tuple[metadata.EntryPoint, ...]:
    """Return the entry points of installed packages; looks into each folder of the path, and loads nothing."""
    return tuple(metadata.entry_points(group=ENTRY_POINTS))


def discover(
    plugin_path: Sequence[Path] = (),
    *,
    more: Iterable[type[Any]] = (),
    entries: Iterable[metadata.EntryPoint] | None = None,
) -> Plugins:
    """Load everything that is installed; `more` are classes that the worker brings itself.

    What cannot be loaded is told in `broken` and stops nothing else. `entries` are the `installed_entries`, where they are
    known.
    """
    installed = [*stock_plugins(), *(each for cls in more for each in _installed(cls, "classpath"))]
    broken: list[tuple[str, str]] = []
    for entry in installed_entries() if entries is None else entries:
        _load_entry(entry, installed, broken)
    for folder in plugin_path:
        for path in sorted(folder.iterdir()) if folder.is_dir() else [folder]:
            _load_path(path, installed, broken)
    return Plugins(installed, broken)


def _load_entry(entry: metadata.EntryPoint, installed: list[InstalledPlugin], broken: list[tuple[str, str]]) -> None:
    location = f"entry point {entry.name} = {entry.value}"
    try:
        cls = entry.load()
    except Exception as error:  # a plugin may raise anything while it is imported
        broken.append((location, f"{type(error).__name__}: {error}"))
        return
    found = list(_installed(cls, location)) if inspect.isclass(cls) else []
    if not found:
        broken.append((location, "it is no class of a connector, converter, transformation or predicate"))
    installed += found


def _load_path(path: Path, installed: list[InstalledPlugin], broken: list[tuple[str, str]]) -> None:
    """Load a Python file, a package, or a folder into which packages were installed (`pip install --target`)."""
    if path.name.startswith((".", "_")):
        return
    if path.is_dir() and any(path.glob("*.dist-info")):
        sys.path.append(str(path))
        for distribution in metadata.distributions(path=[str(path)]):
            for entry in distribution.entry_points.select(group=ENTRY_POINTS):
                _load_entry(entry, installed, broken)
        return
    source = path / "__init__.py" if path.is_dir() else path
    if source.suffix != ".py" or not source.is_file():
        return
    try:
        module = _imported(path, source)
    except Exception as error:  # a plugin may raise anything while it is imported
        broken.append((str(path), f"{type(error).__name__}: {error}"))
        return
    for cls in vars(module).values():
        if (
            inspect.isclass(cls)
            and cls.__module__.partition(".")[0] == module.__name__
            and not cls.__name__.startswith("_")
        ):
            installed += _installed(cls, str(path))


def _imported(path: Path, source: Path) -> ModuleType:
    name = path.stem
    if name in sys.modules:
        raise ConnectError(f"there is a module {name} already; give the plugin another name")
    places = [str(path)] if path.is_dir() else None
    spec = importlib.util.spec_from_file_location(name, source, submodule_search_locations=places)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
