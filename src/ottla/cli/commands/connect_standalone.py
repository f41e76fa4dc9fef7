"""`ottla connect-standalone worker.properties [connector.properties …]`: one Connect worker and its connectors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base import OttlaError
from ottla.cli.connect_worker import StartFailedError, declare_worker, run_worker, worker_config
from ottla.cli.options import Options, properties_file

if TYPE_CHECKING:
    from ottla.spark import ConnectWorker

__all__ = ["main", "options"]

NOUN = "connect-standalone"


def options() -> Options:
    """Return the parser."""
    parser = Options(NOUN, "Run one Connect worker by itself, with the connectors of some files.")
    declare_worker(parser)
    parser.add_argument(
        "connectors",
        nargs="*",
        metavar="connector.properties",
        help="a connector's properties, or JSON; more come over REST",
    )
    return parser


def main(argv: list[str]) -> int:
    """Run the worker until a signal comes; returns Kafka's exit codes."""
    args = options().parse(argv)

    async def begin(worker: ConnectWorker) -> None:
        for path in args.connectors:
            await _create(worker, path)

    return run_worker(NOUN, argv, args, lambda: worker_config(args.worker, NOUN), begin)


async def _create(worker: ConnectWorker, path: str) -> None:
    """Create the connector of a file; raises StartFailedError, which names it."""
    from ottla.connect import storage

    try:
        name, config, state = read_connector(path)
        target = (
            None if state is None else storage.TargetState[{"RUNNING": "STARTED"}.get(state.upper(), state.upper())]
        )
        await worker.herder.put_connector(name, config, target=target, may_replace=False)
    except OttlaError as error:
        raise StartFailedError(f"Failed to create connector for {path}: {error}") from error
    except OSError as error:
        raise StartFailedError(f"Failed to create connector for {path}: {error.strerror}") from error
    except KeyError as error:
        raise StartFailedError(f"Failed to create connector for {path}: there is no initial_state {error}") from error


def read_connector(path: str) -> tuple[str, dict[str, str], str | None]:
    """Return the name, configuration and initial state of a file: properties, a JSON object of them, or a REST body."""
    from ottla.connect import ConnectError

    found: Any = None
    try:
        found = json.loads(Path(path).read_bytes())
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        found = properties_file(path)
    inner = found.get("config")
    state = found.get("initial_state") if isinstance(inner, dict) else None
    config = _texts(inner if isinstance(inner, dict) else found, path)
    name = found.get("name")
    if not isinstance(name, str) or not name.strip():
        raise ConnectError(f"{path}: `name` is missing")
    if config.setdefault("name", name) != name:
        raise ConnectError(
            "Connector name configuration in 'config' doesn't match the one specified in 'name' at the top level."
        )
    return name, config, state


def _texts(found: dict[str, Any], path: str) -> dict[str, str]:
    """Return a configuration whose values are text; numbers and booleans of JSON become what they are written as."""
    from ottla.connect import ConnectError

    texts = {}
    for key, value in found.items():
        if isinstance(value, dict | list):
            raise ConnectError(f"{path}: {key} is to be text, a number or a boolean")
        texts[key] = value if isinstance(value, str) else "" if value is None else json.dumps(value)
    return texts
