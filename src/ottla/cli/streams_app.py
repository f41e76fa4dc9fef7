"""An application's file: the module is imported, and its topology and settings are found in it.

A file holds its plan as `topology` (a Topology), as `builder` (a StreamsBuilder), or as a function `build` that returns
either, called with a new StreamsBuilder if it takes one. `settings`, a dictionary, may stand beside it.
"""

from __future__ import annotations

import importlib.util
import inspect
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ottla.base import OttlaError
from ottla.cli.options import UsageError, properties_file

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.cli.options import Options
    from ottla.streams import StreamsSettings, Topology

__all__ = ["LoadedApplication", "application_options", "load", "settings_of", "settings_to_look_at"]


class ApplicationFileError(OttlaError):
    """A file that is no application; says what was expected."""


@dataclass(frozen=True)
class LoadedApplication:
    """What a file holds."""

    module: ModuleType
    settings: Mapping[str, Any]
    plan: Any
    """A topology, or what builds one."""

    def topology(self, settings: StreamsSettings) -> Topology:
        """Return the plan; a builder makes it by the settings (default serdes, optimisation)."""
        found: Topology = self.plan.build(settings.values) if hasattr(self.plan, "build") else self.plan
        return found


def application_options(parser: Options) -> None:
    """Declare the file and what sets it up."""
    parser.add_argument(
        "app", metavar="app.py", help="a file with `topology`, `builder` or `build()`, perhaps `settings`"
    )
    parser.connection()
    parser.add_argument("--properties", metavar="FILE", help="settings from a properties file of Kafka Streams'")
    parser.add_argument("--property", action="append", default=[], metavar="KEY=VALUE", help="a setting; repeatable")
    parser.add_argument("--application-id", metavar="ID", help="application.id (default: the file's name)")


def load(path: str) -> LoadedApplication:
    """Import a file as a module of its name; raises ApplicationFileError for one that is no application."""
    module = _imported(Path(path))
    found: Any = getattr(module, "topology", None) or getattr(module, "builder", None)
    if found is None and callable(getattr(module, "build", None)):
        found = _built(module.build)
    if not hasattr(found, "build") and not hasattr(found, "nodes"):
        what = "nothing of them" if found is None else f"a {type(found).__name__}"
        expected = "a Topology as `topology`, a StreamsBuilder as `builder`, or a function `build` that returns either"
        raise ApplicationFileError(f"{path}: {expected} is expected, and it has {what}")
    settings = getattr(module, "settings", None) or {}
    if not isinstance(settings, Mapping):
        settings = getattr(settings, "given", settings)
    return LoadedApplication(module, settings, found)


def _imported(path: Path) -> ModuleType:
    if not path.exists():
        raise ApplicationFileError(f"{path} does not exist")
    name = path.stem
    if not name.isidentifier():
        raise ApplicationFileError(
            f"{path}: the file is imported, so its name is to be one of Python's, such as my_app.py"
        )
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    spec = importlib.util.spec_from_file_location(name, path.resolve())
    if spec is None or spec.loader is None:
        raise ApplicationFileError(f"{path} is not a file of Python's")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _built(build: Any) -> Any:
    """Call `build`, with a new builder if it takes one."""
    if not inspect.signature(build).parameters:
        return build()
    from ottla.streams import StreamsBuilder

    builder = StreamsBuilder()
    return build(builder) or builder


def settings_to_look_at(path: str, given: Mapping[str, Any]) -> StreamsSettings:
    """Return a file's settings for a look at its plan: brokers and name need not be there."""
    from ottla.streams import StreamsSettings

    return StreamsSettings.of({"application.id": Path(path).stem, "bootstrap.servers": "localhost:9092", **given})


def settings_of(args: Namespace, given: Mapping[str, Any], **more: Any) -> StreamsSettings:
    """Return an application's settings: the file's own, then `--properties`, `--property` and the other options."""
    from ottla.streams import StreamsSettings

    merged: dict[str, Any] = {"application.id": Path(args.app).stem, **given}
    merged.update(properties_file(args.properties))
    for pair in args.property:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UsageError(f"--property {pair}: KEY=VALUE is expected")
        merged[name.strip()] = value.strip()
    if args.application_id is not None:
        merged["application.id"] = args.application_id
    if "bootstrap.servers" not in merged or _asked_for_brokers():
        merged["bootstrap.servers"] = args.bootstrap_server
    merged.update({name: value for name, value in more.items() if value is not None})
    return StreamsSettings.of(merged)


def _asked_for_brokers() -> bool:
    """Whether the command line names brokers; else those of the application go before the context's."""
    return any(word.startswith(("--bootstrap-server", "--context")) for word in sys.argv)
