"""What may run beside a broker, each as a process of its own that ends with it: a schema registry, and a console."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from ottla.base import ConfigError
from ottla.cli.local.serving import end_by_input
from ottla.cli.options import warn

if TYPE_CHECKING:
    import asyncio

    from ottla.broker import Node
    from ottla.config import BrokerConfig

__all__ = ["beside", "refuse_unreachable"]

STOP_SECONDS_MAX = 10.0
OPEN = "PLAINTEXT://"
EVERYWHERE = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "[::1]"}


@asynccontextmanager
async def beside(config: BrokerConfig, node: Node) -> AsyncIterator[None]:
    """Run what is configured beside a broker for as long as the block."""
    async with AsyncExitStack() as stack:
        for name, command in _commands(config, node).items():
            await stack.enter_async_context(_running(name, command))
        yield


def _commands(config: BrokerConfig, node: Node) -> Mapping[str, Sequence[str]]:
    settings = config.settings
    commands = {}
    if settings.ottla_registry_listeners:
        reached = (
            ["--config", settings.ottla_registry_config]
            if settings.ottla_registry_config
            else ["--bootstrap-server", _bootstrap(node)]
        )
        listeners = f"listeners={','.join(settings.ottla_registry_listeners)}"
        commands["schema registry"] = ["registry", "start", *reached, "--override", listeners]
    if settings.ottla_console_listeners:
        given = settings.ottla_console_config
        command = ["console", "--bootstrap-server", _bootstrap(node)]
        command += ["--config", given, "--command-config", given] if given else []
        commands["console"] = [*command, "--listen", ",".join(settings.ottla_console_listeners)]
    return commands


@asynccontextmanager
async def _running(name: str, command: Sequence[str]) -> AsyncIterator[None]:
    import asyncio

    from ottla.background import supervise

    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ottla.cli.main", *command, "--ends-with-input", "--log-level", "warning"),
        stdin=asyncio.subprocess.PIPE,
    )
    watching = supervise(_watch(name, process), name=f"watch {name}", serves=f"the {name}")
    try:
        yield
    finally:
        watching.cancel()
        await end_by_input(process, seconds=STOP_SECONDS_MAX)


def _bootstrap(node: Node) -> str:
    """Return where a process on this machine reaches this broker: without protection where that can be had."""
    listeners = [str(each) for each in node.listeners]
    place = next((each for each in listeners if each.startswith(OPEN)), listeners[0]).partition("://")[2]
    host, _, port = place.rpartition(":")
    return f"{EVERYWHERE.get(host.strip('[]'), host)}:{port}"


def refuse_unreachable(config: BrokerConfig) -> None:
    """Raise ConfigError where a process is to start beside a broker that it could not log in to."""
    settings = config.settings
    if any(str(each).startswith(OPEN) for each in config.client_listeners):
        return
    for listeners, properties, key, words in (
        (
            *(settings.ottla_registry_listeners, settings.ottla_registry_config, "ottla.registry"),
            "a registry's properties file with kafkastore.bootstrap.servers and kafkastore.security.protocol",
        ),
        (
            *(settings.ottla_console_listeners, settings.ottla_console_config, "ottla.console"),
            "a properties file with a client's security.protocol",
        ),
    ):
        if listeners and not properties:
            raise ConfigError(
                *(f"{key}.config", "", words),
                f"{key}.listeners: this broker has no listener called PLAINTEXT; name {words} in {key}.config",
            )


async def _watch(name: str, process: asyncio.subprocess.Process) -> None:
    """Say where a process ends by itself; the broker goes on."""
    code = await process.wait()
    warn(f"ottla server: the {name} has ended with exit code {code}")
