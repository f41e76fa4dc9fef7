"""A SQL server as a process: its settings, its signals, what it prints and how it ends."""

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

    from ottla.sql_server import ServerSettings

__all__ = ["run_sql_server", "sql_settings_of"]

BOOTSTRAP = "bootstrap.servers"


def run_sql_server(args: Namespace) -> int:
    """Run a server until a signal comes; returns the exit code."""
    import asyncio

    if args.config is not None and args.properties is not None:
        raise UsageError("Only one properties file can be given")
    path = args.config if args.config is not None else args.properties
    log_to_stderr(args.log_format, args.log_level)
    try:
        settings = sql_settings_of(path, args)
        _check_packages(settings)
    except OttlaError as error:
        warn(f"ottla sql server: {error}")
        return 1
    for each in settings.warnings:
        warn(f"warning: {each}")
    raise_descriptor_limit()
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(settings, ends_with_input=args.ends_with_input))


def _check_packages(settings: ServerSettings) -> None:
    """Ask before anything listens; raises SparkMissingError, or ModuleNotFoundError for a package of the extra."""
    import numpy  # noqa: F401  of the extra: the engine in Python reckons with it, too

    if settings.engine == "spark":
        from ottla.spark import check_spark

        check_spark()


def sql_settings_of(path: str | None, args: Namespace) -> ServerSettings:
    """Return what the file, the options and the chosen cluster say; raises OttlaError for what is not allowed."""
    from ottla.config import override_properties
    from ottla.sql_server import server_settings

    properties = {**properties_file(path), **override_properties(args.override)}
    if not properties.get(BOOTSTRAP):
        brokers, login = chosen_cluster(args)
        properties = {**login, **properties, BOOTSTRAP: brokers}
    if args.queries_file is not None:
        properties["ksql.queries.file"] = args.queries_file
    if args.engine is not None:
        properties["ottla.sql.engine"] = args.engine
    return server_settings(properties, os.environ)


async def _run(settings: ServerSettings, *, ends_with_input: bool) -> int:
    """Start the server, say so, and stop it when a signal comes; a second signal ends the process at once."""
    from ottla.sql_server import Instance

    stopping = stop_signals()
    if ends_with_input:
        stop_with_input(stopping)
    instance = Instance(settings)
    where = "Spark's tasks" if settings.engine == "spark" else "threads of this process"
    print(f"queries of service {settings.service_id} on {settings.bootstrap}, in {where}", flush=True)
    try:
        if not await is_started(instance.start(), stopping):
            return 0
    except OttlaError as error:
        warn(f"ottla sql server: {error}")
        return 1
    except OSError as error:
        reason = why_not_listening(error, example="http://HOST:PORT", told_by="listeners")
        warn(f"ottla sql server: cannot listen on {', '.join(map(str, settings.listeners))}: {reason}")
        return 1
    for each in instance.addresses:
        print(f"ready {each}\n", end="", flush=True)  # in one write: threads of hosts log beside it
    await stopping.wait()
    await instance.stop()
    return 0
