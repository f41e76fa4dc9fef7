"""A schema registry as a process: its settings, its signals, what it prints and how it ends."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ottla.base import OttlaError
from ottla.cli.local.log_format import log_to_stderr
from ottla.cli.local.serving import (
    is_started,
    loop_factory,
    raise_descriptor_limit,
    stop_signals,
    stop_with_input,
    why_not_listening,
)
from ottla.cli.options import UsageError, chosen_cluster, properties_file, warn

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.registry import RegistrySettings

__all__ = ["registry_settings_of", "run_registry"]

BOOTSTRAP = "kafkastore.bootstrap.servers"


def run_registry(args: Namespace) -> int:
    """Run an instance until a signal comes; returns the exit code."""
    import asyncio

    if args.config is not None and args.properties is not None:
        raise UsageError("Only one properties file can be given")
    path = args.config if args.config is not None else args.properties
    log_to_stderr(args.log_format, args.log_level)
    try:
        settings = registry_settings_of(path, args)
    except OttlaError as error:
        warn(f"ottla registry: {error}")
        return 1
    for each in settings.warnings:
        warn(f"warning: {each}")
    raise_descriptor_limit()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(settings, ends_with_input=args.ends_with_input))


def registry_settings_of(path: str | None, args: Namespace) -> RegistrySettings:
    """Return what the file, the options and the chosen cluster say; raises OttlaError for what is not allowed."""
    from ottla.config import override_properties
    from ottla.registry import registry_settings

    properties = {**properties_file(path), **override_properties(args.override)}
    if not properties.get(BOOTSTRAP):
        brokers, login = chosen_cluster(args)
        properties = {
            **{f"kafkastore.{name}": value for name, value in login.items()},
            **properties,
            BOOTSTRAP: brokers,
        }
    return registry_settings(properties, os.environ)


async def _run(settings: RegistrySettings, *, ends_with_input: bool) -> int:
    """Start the instance, say so, and stop it when a signal comes; a second signal ends the process at once."""
    import gc

    from ottla.registry import Instance

    stopping = stop_signals()
    if ends_with_input:
        stop_with_input(stopping)
    instance = Instance(settings)
    print(f"schemas in topic {settings.topic} of {settings.bootstrap}, group {settings.group}", flush=True)
    gc.disable()  # what is read stays: looking through it again and again was a quarter of the start
    try:
        if not await is_started(instance.start(), stopping):
            return 0
    except OttlaError as error:
        warn(f"ottla registry: {error}")
        return 1
    except OSError as error:
        reason = why_not_listening(error, example="http://HOST:PORT", told_by="host.name")
        warn(f"ottla registry: cannot listen on {', '.join(map(str, settings.listeners))}: {reason}")
        return 1
    finally:
        gc.enable()
    gc.freeze()  # and no answer waits for a look through all schemas either
    for each in instance.addresses:
        print(f"ready {each}", flush=True)
    await stopping.wait()
    await instance.stop()
    return 0
