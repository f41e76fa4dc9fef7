"""`ottla server start|stop|format`: run a broker, here or in the background; stop it; prepare its folders first."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from ottla.base import ConfigError, OttlaError
from ottla.cli.build_kind import why_pure
from ottla.cli.local.data_folders import data_lines
from ottla.cli.local.log_format import log_to_stderr
from ottla.cli.local.server_options import console_overrides, load_config, start_options
from ottla.cli.local.serving import (
    is_started,
    look_for_cycles_seldom,
    loop_factory,
    raise_descriptor_limit,
    stop_signals,
    stop_with_input,
    why_not_listening,
)
from ottla.cli.local.shard_folders import refuse_hiding_shards
from ottla.cli.options import Options, UsageError, warn

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Iterable

    from ottla.broker import Node
    from ottla.config import BrokerConfig, Listener

__all__ = ["main", "parsers"]

DAEMON = ("-daemon", "--daemon")
ACTIONS = (
    "start [-daemon] [--shards N] [server.properties] [--override k=v]…, stop [--node-id N], "
    "or format -t CLUSTER_ID -c server.properties"
)


def main(argv: list[str]) -> int:
    """Run the action that the first argument names."""
    match argv:
        case ["start", *rest]:
            return start(rest)
        case ["stop", *rest]:
            from ottla.cli.local.server_process import stop_servers

            return stop_servers(rest)
        case ["format", *rest]:
            from ottla.cli.local.storage_format import format_storage

            return format_storage(rest)
        case ["-h" | "--help"]:
            print(f"usage: ottla server {ACTIONS}")
            return 0
    raise UsageError(f"ottla server: {ACTIONS}")


def parsers() -> list[Options]:
    """Return every action's parser, for completion and for the reference page."""
    from ottla.cli.local.server_process import stop_options
    from ottla.cli.local.storage_format import format_options

    return [start_options(), stop_options(), format_options("server format")]


def start(argv: list[str]) -> int:
    """Run a broker until it is told to stop; `ready <listener>` is printed when it serves."""
    args = start_options().parse(argv)
    if not __debug__:
        raise UsageError("ottla server does not run under `python -O`: its assertions keep records safe")
    config = load_config(args.config, args.override + console_overrides(args.console))
    if args.daemon:
        from ottla.cli.local.server_process import start_in_background

        return start_in_background([each for each in argv if each not in DAEMON], config.log_dirs[0])
    try:
        refuse_unbuilt(config)
        if args.shards is not None:
            if args.console is not None:
                raise UsageError("--console and --shards cannot be used together: start `ottla console` beside them")
            from ottla.cli.local.shards import serve_shards

            return serve_shards(config, args.shards, shard_arguments(args))
        refuse_hiding_shards(config)
        log_to_stderr(args.log_format, args.log_level)
        return serve(config, ends_with_input=args.ends_with_input)
    except OttlaError as error:
        warn(f"ottla server: {error}")
    except OSError as error:
        addresses = ", ".join(map(str, (*config.listeners, *config.http_listeners)))
        reason = why_not_listening(error, example="PLAINTEXT://HOST:PORT", told_by="advertised.listeners")
        warn(f"ottla server: cannot listen on {addresses}: {reason}")
    return 1


def shard_arguments(args: argparse.Namespace) -> list[str]:
    """Return the arguments with which a shard starts, but for its own overrides."""
    found = [args.config] if args.config else []
    for override in args.override:
        found += ["--override", override]
    return [*found, "--log-format", args.log_format, "--log-level", args.log_level]


def refuse_unbuilt(config: BrokerConfig) -> None:
    """Raise ConfigError where the configuration asks for protection that is not built yet, or is no node.

    Starting without it would leave open what the operator believes to be closed.
    """
    from ottla.broker import mechanisms_of
    from ottla.cli.local.children import refuse_unreachable

    mechanisms_of(config)
    refuse_unreachable(config)
    named = config.voters or config.settings.controller_quorum_bootstrap_servers
    if "controller" not in config.roles and not named:
        given = ",".join(config.settings.process_roles)
        raise ConfigError(
            "process.roles", given, "a broker alone needs controller.quorum.voters, to find its controllers"
        )


def serve(config: BrokerConfig, *, ends_with_input: bool = False) -> int:
    """Run the node on an event loop of its own; returns the exit code."""
    import asyncio

    raise_descriptor_limit()
    look_for_cycles_seldom()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(run_node(config, ends_with_input=ends_with_input))


async def run_node(config: BrokerConfig, *, ends_with_input: bool = False) -> int:
    """Start the node, say so, and stop it when a signal comes; a second signal ends the process at once."""
    import gc
    import random

    from ottla.broker import Node, SystemClock, ThreadsAndProcess
    from ottla.cli.local.children import beside
    from ottla.log import OsDisk
    from ottla.net import TcpNetwork

    stopping = stop_signals()
    if ends_with_input:
        stop_with_input(stopping)
    offload = ThreadsAndProcess()
    node = Node(config, OsDisk(), TcpNetwork(), SystemClock(), random.SystemRandom(), offload)
    if config.listens_on_default_only:
        warn(f"no listener is configured: only programs on this machine reach {config.listeners[0]}")
    try:
        if not await is_started(node.start(), stopping):
            return 0
        gc.freeze()  # no request waits for a look through every log that the start has opened
        if reason := why_pure():
            warn(f"warning: {reason}")
        data, others = data_lines(config.log_dirs)
        print(data, flush=True)
        for line in others:
            warn(line)
        for address in node.http_listeners:
            print(f"metrics {address}/metrics, health {address}/healthz", flush=True)
        for line in listening_lines(config, node.all_listeners):
            print(line, flush=True)
        for listener in node.listeners:
            print(f"ready {listener}", flush=True)
        async with beside(config, node):
            error = await end_of(node, stopping)
        await node.stop()
    finally:
        offload.close()
    if error is not None:
        warn(f"ottla server: {error}")
    return 0 if error is None else 1


def listening_lines(config: BrokerConfig, listeners: Iterable[Listener]) -> list[str]:
    """Return what is said of each place where somebody may come in: how it is protected, and who may."""
    from ottla.broker import mechanisms_of
    from ottla.config import listening_line

    logins = mechanisms_of(config)
    lines = []
    for each in listeners:
        who = "other nodes" if each.name in config.controller_listener_names else "clients"
        if each.name in logins:
            how = f"by a login, {', '.join(logins[each.name].names)}"
        elif each.protocol:
            asked = config.listener_values(each, "").get("ssl.client.auth") or config.settings.ssl_client_auth
            how = "by a certificate" if asked == "required" else "without a login"
        else:
            how = "without a login"
        lines.append(listening_line(each, protection=each.protocol.name, admits=f"{who} {how}"))
    return lines


async def end_of(node: Node, stopping: asyncio.Event) -> BaseException | None:
    """Wait for a signal, or for the node's own failure, which is returned."""
    import asyncio

    from ottla.background import awaited

    assert node.failed is not None
    signalled = awaited(stopping.wait())
    ends: tuple[asyncio.Future[Any], ...] = (signalled, node.failed)
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    signalled.cancel()
    return node.failed.exception() if node.failed.done() else None
