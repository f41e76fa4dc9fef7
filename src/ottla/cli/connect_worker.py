"""What both kinds of Connect worker share on the command line: options, logging, signals, `-daemon`, and exit codes."""

from __future__ import annotations

import argparse
import logging
import os
import re
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ottla.base import OttlaError, why_unreached
from ottla.cli.commands.home import HOME
from ottla.cli.local.log_format import FORMATS, LEVELS, log_to_stderr
from ottla.cli.options import Options, properties_file, warn

if TYPE_CHECKING:
    from ottla.connect import WorkerConfig
    from ottla.spark import ConnectWorker

__all__ = [
    "DAEMON",
    "FAILED",
    "FAILED_TO_START",
    "StartFailedError",
    "declare_worker",
    "run_worker",
    "set_up_log",
    "start_in_background",
    "worker_config",
]

DAEMON = ("-daemon", "--daemon")
START_SECONDS_MAX = 90.0
POLL_SECONDS = 0.05
FAILED, FAILED_TO_START = 2, 3
"""Kafka's exit codes: of settings, cluster and REST interface, and of a herder or connector that does not start."""
OUTPUT_NAMES = {
    "connect-standalone": "connectStandalone.out",
    "connect-distributed": "connectDistributed.out",
    "connect-mirror-maker": "connectMirrorMaker.out",
}
"""As Kafka's scripts name the files that background workers print to."""
QUIET = ("py4j", "asyncio")
LOG4J_OPTION = re.compile(r"-Dlog4j2?\.configuration(?:File)?=(?:file:)?(\S+)")
LOG4J_WORDS = {
    **dict.fromkeys(("ALL", "TRACE", "DEBUG"), "debug"),
    **dict.fromkeys(("FATAL", "OFF"), "critical"),
    "INFO": "info",
    "WARN": "warning",
    "ERROR": "error",
}


class StartFailedError(OttlaError):
    """The worker runs, and what it was started with does not."""


def declare_worker(parser: Options) -> None:
    """Declare the worker's file and how it is run."""
    parser.add_argument("worker", metavar="worker.properties", help="Kafka's own file")
    parser.add_argument("-daemon", "--daemon", action="store_true", help="in the background; returns when it is ready")
    parser.add_argument(
        "--log-format", choices=FORMATS, default="text", help="of events on standard error: text or json"
    )
    parser.add_argument("--log-level", choices=LEVELS, help=f"{', '.join(LEVELS)}; connect-log4j2.yaml's without it")
    parser.add_argument("-name", metavar="NAME", help=argparse.SUPPRESS)  # for the JVM of Kafka's script, as -loggc
    parser.add_argument("-loggc", action="store_true", help=argparse.SUPPRESS)


def worker_config(path: str, noun: str) -> WorkerConfig:
    """Return the settings of a worker's file, and print what has no effect; raises ConfigError."""
    from ottla.connect import WorkerConfig, WorkerMode

    mode = WorkerMode(noun.removeprefix("connect-"))
    config = WorkerConfig.load(properties_file(path), mode)
    for each in config.warnings:
        warn(f"warning: {path}: {each}")
    return config


def run_worker(
    noun: str,
    argv: list[str],
    args: argparse.Namespace,
    load: Callable[[], WorkerConfig],
    begin: Callable[[ConnectWorker], Awaitable[Any]],
    make_herder: Callable[..., Any] | None = None,
) -> int:
    """Run a worker until a signal comes; `begin` is called when it takes requests. Returns the exit code.

    What `begin` returns may be a future: the worker ends when that fails.
    """
    from ottla.spark import spark_missing

    if missing := spark_missing():  # before anything says that it is ready: tasks run on Spark
        warn(f"ottla {noun}: {missing}")
        return FAILED
    if args.daemon:
        return start_in_background(noun, [each for each in argv if each not in DAEMON])
    set_up_log(args)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy multiplies nothing here, and its threads prevent a fork
    import asyncio

    from ottla.cli.local.serving import loop_factory, raise_descriptor_limit
    from ottla.spark import prepare_local_python

    try:
        config = load()
    except OttlaError as error:
        warn(f"ottla {noun}: {args.worker}: {error}")
        return FAILED
    except OSError as error:
        warn(f"ottla {noun}: {args.worker}: {error.strerror}")
        return FAILED
    raise_descriptor_limit()
    prepare_local_python(config.properties)
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(noun, config, begin, make_herder))


def set_up_log(args: argparse.Namespace) -> None:
    """Log to standard error: from `--log-level` on, or at the levels of Kafka's log4j2 file, connectors named."""
    from ottla.connect import ContextFilter

    levels = log4j_levels(log4j_file()) if args.log_level is None else {}
    log_to_stderr(args.log_format, args.log_level or levels.pop("", "info"))
    for handler in logging.getLogger().handlers:
        handler.addFilter(ContextFilter())
    for name in QUIET:
        logging.getLogger(name).setLevel(logging.WARNING)
    for name, level in levels.items():
        logging.getLogger(name).setLevel(level.upper())


def log4j_file() -> Path:
    """Return the log4j2 file that `KAFKA_LOG4J_OPTS` names, as for Kafka's scripts, or the stock one."""
    named = LOG4J_OPTION.search(os.environ.get("KAFKA_LOG4J_OPTS", ""))
    return Path(named[1]) if named else HOME / "config" / "connect-log4j2.yaml"


def log4j_levels(path: Path) -> dict[str, str]:
    """Return the levels of a log4j2 file in YAML, by logger; the root's name is empty. What is none of ours is left out."""
    import yaml

    try:
        found = yaml.safe_load(path.read_text())["Configuration"]["Loggers"]
        others = found.get("Logger") or []
        named = {each["name"]: each["level"] for each in (others if isinstance(others, list) else [others])}
        levels = {"": found["Root"]["level"], **named}
    except (OSError, yaml.YAMLError, KeyError, TypeError) as error:
        warn(f"warning: {path} says no levels of loggers: {error!r}")
        return {}
    words = {name: LOG4J_WORDS.get(str(level).upper()) for name, level in levels.items()}
    return {name: word for name, word in words.items() if word is not None}


async def _run(
    noun: str,
    config: WorkerConfig,
    begin: Callable[[ConnectWorker], Awaitable[Any]],
    make_herder: Callable[..., Any] | None,
) -> int:
    import asyncio

    from ottla.background import awaited
    from ottla.cli.local.serving import take_signals
    from ottla.spark import ConnectWorker

    signalled: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    take_signals(signalled.set_result, signalled.done)
    worker = ConnectWorker(config) if make_herder is None else ConnectWorker(config, make_herder)
    ends: list[asyncio.Future[None]] = []
    starting = awaited(_start(noun, worker, begin, ends))
    await asyncio.wait((starting, signalled), return_when=asyncio.FIRST_COMPLETED)
    if not starting.done():
        starting.cancel()
    (code,) = await asyncio.gather(starting, return_exceptions=True)
    if isinstance(code, BaseException) and not isinstance(code, asyncio.CancelledError):
        await worker.close()
        raise code
    if code == 0:
        either: list[asyncio.Future[Any]] = [signalled, *ends]
        await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        code = 128 + signalled.result() if signalled.done() else _failed(noun, ends)
    elif isinstance(code, BaseException):
        code = 128 + signalled.result()
    await worker.close()
    return int(code)


def _failed(noun: str, ends: list[Any]) -> int:
    """Say why a worker has ended by itself, and return its exit code."""
    warn(f"ottla {noun}: {next(each.exception() for each in ends if each.done())}")
    return 1


async def _start(
    noun: str, worker: ConnectWorker, begin: Callable[[ConnectWorker], Awaitable[Any]], ends: list[Any]
) -> int:
    """Start a worker and say so; returns 0, or the exit code of what went wrong."""
    try:
        await worker.start()
    except (OttlaError, OSError) as error:
        warn(f"ottla {noun}: {why_unreached(error)}")
        return FAILED
    try:
        end = await begin(worker)
    except StartFailedError as error:
        warn(f"ottla {noun}: {error}")
        return FAILED_TO_START
    ends += [] if end is None else [end]
    for url in worker.metrics_urls:
        print(f"metrics {url}/metrics, health {url}/healthz", flush=True)
    for url in worker.urls:
        print(f"ready {url}", flush=True)
    return 0


def start_in_background(noun: str, argv: list[str]) -> int:
    """Start a worker detached; returns when it is ready (0) or has ended (its exit code).

    What it prints goes to `connectStandalone.out` or `connectDistributed.out` in `$LOG_DIR`, or in `logs` of this folder.
    """
    folder = Path(os.environ.get("LOG_DIR") or "logs").absolute()
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / OUTPUT_NAMES[noun]
    with path.open("ab") as out:
        begun = out.tell()
        process = subprocess.Popen(
            [sys.executable, "-m", "ottla.cli.main", noun, *argv],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            start_new_session=True,
        )
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        ended = process.poll()
        with path.open("rb") as file:
            file.seek(begun)
            lines = file.read().decode(errors="replace").splitlines()
        if any(line.startswith("ready ") for line in lines):
            print(f"started, process {process.pid}; what it prints goes to {path}")
            return 0
        if ended is not None:
            warn(lines[-1] if lines else f"ottla {noun}: ended with exit code {ended}")
            return ended
        time.sleep(POLL_SECONDS)
    warn(f"ottla {noun}: not ready after {START_SECONDS_MAX:.0f} s; process {process.pid} goes on, see {path}")
    return 1
