"""Which cluster a command means when no option says it: the environment, a context, or this machine.

The order is `--bootstrap-server`, OTTLA_BOOTSTRAP_SERVERS, `--context`, OTTLA_CONTEXT, the current context of the
project's file (`.ottla.toml`, found by walking up from the working directory), that of the user's own file
(`contexts.toml` under `$XDG_CONFIG_HOME/ottla`), and at last localhost:9092, where `ottla server start` listens. So the
text with which Kafka's tools miss `--bootstrap-server` is never needed.
"""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from ottla.base import ConfigError, OttlaError

__all__ = [
    "DEFAULT_BOOTSTRAP",
    "Context",
    "ContextFile",
    "Target",
    "known_contexts",
    "read_contexts",
    "target",
    "user_file",
]

DEFAULT_BOOTSTRAP = "localhost:9092"
PROJECT_FILE = ".ottla.toml"
FOLDERS_UP_MAX = 64
NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Context:
    """A cluster under a name."""

    name: str
    bootstrap_servers: str
    command_config: str | None = None
    """A properties file for clients, as `--command-config` takes it."""
    source: str = ""
    """The file that it stands in."""

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ConfigError("context", self.name, "a name of letters, digits, '_', '.' and '-' is expected")


@dataclass(frozen=True, slots=True)
class ContextFile:
    """What one file says: contexts by name, and which of them is current."""

    path: Path
    contexts: Mapping[str, Context] = field(default_factory=dict)
    current: str | None = None

    def with_context(self, context: Context) -> ContextFile:
        """Return the file with a context added or replaced."""
        return replace(self, contexts={**self.contexts, context.name: context})

    def without(self, name: str) -> ContextFile:
        """Return the file without a context; it is current no more."""
        left = {each: context for each, context in self.contexts.items() if each != name}
        return replace(self, contexts=left, current=None if self.current == name else self.current)

    def write(self) -> None:
        """Replace the file on disk; it may hold a path to secrets, so that only its owner reads it."""
        from ottla.config import write_whole

        self.path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(self.path, [self.text().encode()])

    def text(self) -> str:
        """Return the TOML; a JSON string is a TOML string."""
        lines = [] if self.current is None else [f"current = {json.dumps(self.current)}"]
        for context in self.contexts.values():
            lines += ["", f"[contexts.{json.dumps(context.name)}]"]
            lines.append(f"bootstrap-servers = {json.dumps(context.bootstrap_servers, ensure_ascii=False)}")
            if context.command_config:
                lines.append(f"command-config = {json.dumps(context.command_config, ensure_ascii=False)}")
        return "\n".join(lines).lstrip("\n") + "\n"


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that a command means, and what said so."""

    bootstrap_servers: str
    command_config: str | None
    said_by: str


def user_file() -> Path:
    """Return where the user's own contexts stand, whether the file exists or not (XDG base directories).

    Raises OttlaError for a user without a home.
    """
    home = os.environ.get("XDG_CONFIG_HOME")
    try:
        return Path(home if home else Path.home() / ".config") / "ottla" / "contexts.toml"
    except RuntimeError:  # as in a container that runs as a user whom the system does not know
        raise OttlaError("this user has no home folder for contexts: set HOME, or XDG_CONFIG_HOME") from None


def project_file() -> Path | None:
    """Return the nearest `.ottla.toml` from the working directory up, or None.

    Another user's file is passed over with a line that says so: in a shared folder such as /tmp anybody could send this
    user's records elsewhere with one.
    """
    folder = Path.cwd()
    for candidate in [folder, *folder.parents][:FOLDERS_UP_MAX]:
        file = candidate / PROJECT_FILE
        if file.is_file():
            if file.stat().st_uid in (os.getuid(), 0):
                return file
            print(f"warning: {file} belongs to another user and is not used", file=sys.stderr)
    return None


def read_contexts(path: Path) -> ContextFile:
    """Read a file of contexts; one that does not exist is empty. Raises ConfigError for one that is malformed."""
    if not path.exists():
        return ContextFile(path)
    import tomllib

    try:
        found = tomllib.loads(path.read_text())
        contexts = {name: _context(name, table, path) for name, table in found.get("contexts", {}).items()}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, AttributeError) as error:
        raise ConfigError("contexts", path, str(error), f"{path} is not a file of contexts: {error}") from None
    current = found.get("current")
    return ContextFile(path, contexts, current if isinstance(current, str) else None)


def _context(name: str, table: object, path: Path) -> Context:
    if not isinstance(table, dict):
        raise ConfigError("contexts", name, "", f"{path}: [contexts.{name}] with bootstrap-servers in it is expected")
    unknown = sorted(set(table) - {"bootstrap-servers", "command-config"})
    if unknown:
        raise ConfigError(
            "contexts", name, f"{unknown[0]} is no key of a context; bootstrap-servers and command-config are"
        )
    servers, config = table.get("bootstrap-servers"), table.get("command-config")
    if not isinstance(servers, str):
        message = f'{path}: context {name} needs bootstrap-servers = "host:port,…"'
        raise ConfigError("bootstrap-servers", servers, "host:port,… is expected", message)
    beside = None if config is None else str(path.parent / Path(str(config)).expanduser())
    return Context(name, servers, beside, str(path))


def known_contexts() -> tuple[dict[str, Context], str | None]:
    """Return every context by name, the project's before the user's, and the name of the current one."""
    files = []
    try:
        own = user_file()
    except OttlaError:  # who has no home keeps no contexts there
        pass
    else:
        files.append(read_contexts(own))
    if project := project_file():
        files.append(read_contexts(project))
    contexts: dict[str, Context] = {}
    current = None
    for each in files:
        contexts |= each.contexts
        current = each.current or current
    return contexts, os.environ.get("OTTLA_CONTEXT") or current


def target(context: str | None = None) -> Target:
    """Return the cluster that is meant where `--bootstrap-server` is not given; raises ConfigError for no context."""
    servers = os.environ.get("OTTLA_BOOTSTRAP_SERVERS")
    if servers and context is None:
        return Target(servers, None, "OTTLA_BOOTSTRAP_SERVERS")
    contexts, current = known_contexts()
    name = context or current
    if name is None:
        return Target(DEFAULT_BOOTSTRAP, None, "the default, where nothing else names a cluster")
    if name not in contexts:
        known = ", ".join(contexts) or "none so far: `ottla context create` makes one"
        message = f"there is no context {name}; there are: {known}"
        raise ConfigError("context", name, "a context that exists is expected", message)
    found = contexts[name]
    return Target(found.bootstrap_servers, found.command_config, f"context {name} ({found.source})")
