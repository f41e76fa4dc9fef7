"""A schema registry beside a broker (`ottla.registry.listeners`): a process of its own that ends with the broker."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from ottla.base import ConfigError
from ottla.cli.options import warn

if TYPE_CHECKING:
    import asyncio

    from ottla.broker import Node
    from ottla.config import BrokerConfig

__all__ = ["refuse_unreachable", "registry_beside"]

STOP_SECONDS_MAX = 10.0
OPEN = "PLAINTEXT://"
EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}


@asynccontextmanager
async def registry_beside(config: BrokerConfig, node: Node) -> AsyncIterator[None]:
    """Run a registry for as long as the block, where one is configured."""
    import asyncio

    listeners = config.settings.ottla_registry_listeners
    if not listeners:
        yield
        return
    process = await asyncio.create_subprocess_exec(*_command(config, node), stdin=asyncio.subprocess.PIPE)
    watching = asyncio.ensure_future(_watch(process))
    try:
        yield
    finally:
        watching.cancel()
        await _end(process)


def _command(config: BrokerConfig, node: Node) -> list[str]:
    settings = config.settings
    command = [
        sys.executable,
        "-m",
        "ottla.cli.main",
        "registry",
        "start",
        "--ends-with-input",
        "--log-level",
        "warning",
    ]
    if settings.ottla_registry_config:
        command += ["--config", settings.ottla_registry_config]
    else:
        command += ["--bootstrap-server", _bootstrap(node)]
    return [*command, "--override", f"listeners={','.join(settings.ottla_registry_listeners)}"]


def _bootstrap(node: Node) -> str:
    """Return where the registry reaches this broker."""
    place = next(str(each) for each in node.listeners if str(each).startswith(OPEN)).removeprefix(OPEN)
    host, _, port = place.rpartition(":")
    return f"{EVERYWHERE.get(host.strip('[]'), host)}:{port}"


def refuse_unreachable(config: BrokerConfig) -> None:
    """Raise ConfigError where a registry is to start beside a broker that it could not log in to."""
    settings = config.settings
    if not settings.ottla_registry_listeners or settings.ottla_registry_config:
        return
    if not any(str(each).startswith(OPEN) for each in config.client_listeners):
        raise ConfigError(
            *("ottla.registry.config", "", "a registry's properties file"),
            "ottla.registry.listeners: this broker has no listener called PLAINTEXT; name a properties file with "
            "kafkastore.bootstrap.servers and kafkastore.security.protocol in ottla.registry.config",
        )


async def _watch(process: asyncio.subprocess.Process) -> None:
    """Say where the registry ends by itself; the broker goes on."""
    code = await process.wait()
    warn(f"ottla server: the schema registry has ended with exit code {code}")


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask the registry to stop, by the end of its input, and kill it where it has not after so long."""
    import asyncio

    if process.stdin is not None:
        process.stdin.close()
    try:
        async with asyncio.timeout(STOP_SECONDS_MAX):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()
