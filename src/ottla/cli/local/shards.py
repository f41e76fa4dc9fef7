"""`ottla server start --shards N`: N brokers on this machine that share nothing, and one parent that looks after them."""

from __future__ import annotations

import contextlib
import ctypes
import io
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.cli.local.node_process import POLL_SECONDS, ending
from ottla.cli.local.shard_folders import rename_old_folders
from ottla.cli.local.shard_layout import Shard, shards_of
from ottla.cli.options import warn

if TYPE_CHECKING:
    from types import FrameType

    from ottla.config import BrokerConfig

__all__ = ["serve_shards"]

READY_SECONDS_MAX = 120.0
STOP_SECONDS_MAX = 60.0
RESTART_SECONDS = 1.0
"""How long after its end a shard is started again."""
PR_SET_PDEATHSIG = 1


@dataclass
class _Running:
    """One shard's process, and what it has said about where it serves."""

    shard: Shard
    process: subprocess.Popen[str]
    served: list[str] = field(default_factory=list)
    ready: threading.Event = field(default_factory=threading.Event)
    ended_at: float | None = None


def serve_shards(config: BrokerConfig, count: int, arguments: Sequence[str]) -> int:
    """Run the shards until a signal comes; `arguments` are those of `server start`, without `--shards`."""
    shards = shards_of(config, count)
    for folder in dict.fromkeys((*config.log_dirs, config.metadata_log_dir)):
        rename_old_folders(folder)
    for shard in shards:
        _format(shard, arguments)
    signals: list[int] = []

    def signalled(number: int, frame: FrameType | None) -> None:
        signals.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signalled)
    running = [_begin(shard, arguments) for shard in shards]
    try:
        if _await_ready(running, signals):
            for each in running:
                print("\n".join(each.served), flush=True)
            _supervise(running, arguments, signals)
            return 0 if _stop(running, signals) else 1
        return 0 if _stop(running, signals) and signals else 1
    finally:
        for each in running:
            if each.process.poll() is None:
                each.process.kill()


def _format(shard: Shard, arguments: Sequence[str]) -> None:
    """Give a shard's new folders their identity where this machine is the whole quorum."""
    if shard.cluster_id is None:
        return
    from ottla.cli.local.server_options import start_options
    from ottla.cli.local.storage_format import format_storage

    args = start_options().parse(list(arguments))
    config = ["-c", args.config or os.devnull]
    overrides = [word for each in (*args.override, *shard.overrides) for word in ("--override", each)]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        format_storage(["-t", shard.cluster_id, "--ignore-formatted", *config, *overrides])


def _begin(shard: Shard, arguments: Sequence[str]) -> _Running:
    command = [sys.executable, "-m", "ottla.cli.main", "server", "start", *arguments]
    for each in shard.overrides:
        command += ["--override", each]
    running = _Running(shard, _spawn(command))
    _listen_to(running)
    return running


def _spawn(command: list[str]) -> subprocess.Popen[str]:
    """Start a shard apart from this terminal's Ctrl-C; it is told to stop where its parent dies without a word."""
    prctl = ctypes.CDLL(None).prctl

    def follow_parent() -> None:
        prctl(PR_SET_PDEATHSIG, signal.SIGTERM)

    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=follow_parent,
    )


def _listen_to(running: _Running) -> None:
    """Collect what a shard prints, until it ends."""
    from ottla.background import supervise_thread

    process = running.process
    assert process.stdout is not None

    def read() -> None:
        assert process.stdout is not None
        for line in process.stdout:
            running.served.append(line.rstrip("\n"))
            if line.startswith("ready "):
                running.ready.set()

    supervise_thread(read, name=f"shard-{running.shard.node_id}", serves="what a shard says")


def _await_ready(running: list[_Running], signals: list[int]) -> bool:
    deadline = time.monotonic() + READY_SECONDS_MAX
    while not signals and not all(each.ready.is_set() for each in running):
        for each in running:
            if (code := each.process.poll()) is not None:
                warn(f"ottla server: node {each.shard.node_id} {ending(code)} before it was ready")
                return False
        if time.monotonic() > deadline:
            waiting = ", ".join(str(each.shard.node_id) for each in running if not each.ready.is_set())
            warn(f"ottla server: not ready after {READY_SECONDS_MAX:.0f} s: node {waiting}")
            return False
        time.sleep(POLL_SECONDS)
    return not signals


def _supervise(running: list[_Running], arguments: Sequence[str], signals: list[int]) -> None:
    """Start again what ends by itself, until a signal comes."""
    while not signals:
        time.sleep(POLL_SECONDS)
        now = time.monotonic()
        for index, each in enumerate(running):
            code = each.process.poll()
            if code is None:
                continue
            if each.ended_at is None:
                each.ended_at = now
                said = f"node {each.shard.node_id} (process {each.process.pid}) {ending(code)}"
                warn(f"ottla server: {said}; it starts again")
            elif now - each.ended_at >= RESTART_SECONDS:
                running[index] = _begin(each.shard, arguments)


def _stop(running: list[_Running], signals: list[int]) -> bool:
    """Stop the brokers, then the controllers, which brokers need to leave in order; False where one did not end well."""
    clean = True
    for group in ([each for each in running if not each.shard.is_controller], running):
        for each in group:
            if each.process.poll() is None:
                each.process.terminate()
        deadline = time.monotonic() + STOP_SECONDS_MAX
        while any(each.process.poll() is None for each in group):
            if len(signals) > 1 or time.monotonic() > deadline:
                for each in running:
                    each.process.kill()
            time.sleep(POLL_SECONDS)
        clean = clean and all(each.process.returncode == 0 for each in group)
    return clean
