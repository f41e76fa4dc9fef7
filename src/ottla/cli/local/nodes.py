"""`ottla cluster start` and what stops, kills and pauses its nodes: a cluster on this machine, to try and to break."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ottla.base import OttlaError
from ottla.cli.local.cluster import BROKERS_MAX, CONTROLLERS_MAX, LocalCluster, LocalNode, free_ports
from ottla.cli.local.node_process import (
    POLL_SECONDS,
    STOP_SECONDS_MAX,
    await_end,
    begin,
    ending,
    last_line,
    pid_of,
    send,
    state_of,
)
from ottla.cli.local.standing import Watchers, standing
from ottla.cli.options import Options, UsageError, check_required, output_option, warn, whole_number
from ottla.cli.output import Answer, print_answer, print_table

if TYPE_CHECKING:
    from argparse import Namespace
    from types import FrameType

__all__ = ["ACTIONS", "node_parsers", "prepare", "run_action", "start_parser", "stop_all"]

READY_SECONDS_MAX = 120.0
PORT_DEFAULT = 9092
ACTIONS = frozenset({"start", "status", "kill", "stop", "pause", "resume", "start-node"})
"""The actions that this module runs."""


def start_parser() -> Options:
    """Return the parser of `cluster start`."""
    parser = Options("cluster start", "Run a cluster on this machine, a process per node, until it is told to stop.")
    parser.add_argument("--brokers", type=whole_number, metavar="N", help="how many nodes (default: 3, or as before)")
    _data_option(parser)
    parser.add_argument(
        "--port",
        type=whole_number,
        metavar="P",
        help=f"node I listens on P+I-1 (default: {PORT_DEFAULT}, or as before)",
    )
    parser.add_argument(
        "--override", action="append", metavar="KEY=VALUE", help="for every node; repeatable (default: as before)"
    )
    return parser


def node_parsers() -> list[Options]:
    """Return the parsers of the actions on a cluster that `cluster start` has made."""
    status = Options("cluster status", "Print the nodes of a cluster on this machine, and how they stand.")
    _data_option(status)
    output_option(status)
    return [
        status,
        _node_parser("kill", "End a node as `kill -9` does."),
        _node_parser("stop", "Stop a node cleanly, and wait for its end."),
        _node_parser("pause", "Halt a node's process, as SIGSTOP does."),
        _node_parser("resume", "Let a paused node go on."),
        _node_parser("start-node", "Start a node again, in the background; returns when it serves."),
    ]


def _node_parser(action: str, description: str) -> Options:
    parser = Options(f"cluster {action}", description)
    parser.add_argument("node", type=whole_number, metavar="I", help="the node, counted from 1")
    _data_option(parser)
    return parser


def _data_option(parser: Options) -> None:
    parser.add_argument("--data", metavar="DIR", help="the cluster's folder (required)")


def run_action(action: str, args: Namespace) -> int:
    """Run one action; returns the exit code, and raises OttlaError for what cannot be done."""
    check_required(args, "data")
    folder = Path(args.data)
    if action == "start":
        return start(prepare(folder, brokers=args.brokers, port=args.port, overrides=args.override))
    cluster = LocalCluster.load(folder)
    if action == "status":
        print_status(cluster, args.output)
        return 0
    node = cluster.node(args.node)
    match action:
        case "kill":
            await_end(send(node, signal.SIGKILL))
        case "stop":
            stop_all([node])
        case "pause":
            send(node, signal.SIGSTOP)
        case "resume":
            send(node, signal.SIGCONT)
        case _:
            start_node(cluster, node)
    return 0


# -- the whole cluster


def prepare(
    folder: Path,
    *,
    brokers: int | None = None,
    port: int | None = None,
    overrides: list[str] | None = None,
    hosts: tuple[str, ...] = (),
) -> LocalCluster:
    """Return the folder's cluster, made now or as it was, with every node configured and formatted."""
    if LocalCluster.exists(folder):
        cluster = LocalCluster.load(folder)
        if brokers is not None and brokers < cluster.brokers:
            raise OttlaError(f"{folder} holds a cluster of {cluster.brokers} nodes; it cannot become smaller")
        port_before = cluster.port
        cluster = replace(
            cluster,
            brokers=brokers or cluster.brokers,
            port=port or cluster.port,
            overrides=cluster.overrides if overrides is None else tuple(overrides),
        )
        if cluster.port != port_before and any(pid_of(node) for node in cluster.nodes):
            raise OttlaError(f"nodes of {folder} run on ports from {port_before} on; stop them first")
    else:
        cluster = _new(folder, brokers=3 if brokers is None else brokers, port=port or PORT_DEFAULT)
        cluster = replace(cluster, overrides=tuple(overrides or ()), hosts=hosts)
    cluster.save()
    for node in cluster.nodes:
        _format(cluster, node)
    return cluster


def _new(folder: Path, *, brokers: int, port: int) -> LocalCluster:
    from ottla.cli.local.storage_format import new_id

    if not 1 <= brokers <= BROKERS_MAX:
        raise UsageError(f"--brokers is 1 to {BROKERS_MAX}, not {brokers}")
    controllers = free_ports(min(brokers, CONTROLLERS_MAX), port=port)
    return LocalCluster(folder, new_id(), port, brokers, controllers)


def _format(cluster: LocalCluster, node: LocalNode) -> None:
    """Give a new node's folder its identity; one that has it already is left as it is."""
    import contextlib
    import io

    from ottla.cli.local.storage_format import format_storage

    if (node.data / "meta.properties").exists():
        return
    argv = ["-t", cluster.cluster_id, "-c", str(node.config), "--ignore-formatted"]
    with contextlib.redirect_stdout(io.StringIO()):
        format_storage(argv)


def start(cluster: LocalCluster) -> int:
    """Run every node that does not run yet, say `ready`, and stop all when a signal comes."""
    signalled: list[int] = []

    def stop(number: int, frame: FrameType | None) -> None:
        signalled.append(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    children: dict[int, subprocess.Popen[bytes]] = {}
    code = 0
    try:
        for node in cluster.nodes:
            if (pid := pid_of(node)) is not None:
                say(f"node {node.id} runs already, as process {pid}")
                continue
            children[node.id] = begin(node)
            say(f"node {node.id} starts on {cluster.address(node.id)}, process {children[node.id].pid}")
        if _await_ready(cluster, children, signalled):
            say("ready")
            _watch(cluster, children, signalled)
        elif not signalled:
            code = 1
    finally:
        if not stop_all(cluster.nodes):
            code = 1
    return code


def _await_ready(cluster: LocalCluster, children: dict[int, subprocess.Popen[bytes]], signalled: list[int]) -> bool:
    """Return whether every node knows all as unfenced; False at a signal, and where one ends or it takes too long."""
    with Watchers(cluster) as watchers:
        deadline = time.monotonic() + READY_SECONDS_MAX
        waiting = [node.id for node in cluster.nodes]
        while waiting and not signalled:
            for number, child in children.items():
                if child.poll() is not None:
                    node = cluster.node(number)
                    warn(f"ottla cluster: node {number} {ending(child.returncode)}: {last_line(node.log)}")
                    return False
            if time.monotonic() > deadline:
                warn(f"ottla cluster: not ready after {READY_SECONDS_MAX:.0f} s: waiting for {_list(waiting)}")
                return False
            for number in [
                each for each in waiting if watchers.unfenced_at(each) >= set(range(1, cluster.brokers + 1))
            ]:
                waiting.remove(number)
                say(f"node {number} serves")
            time.sleep(POLL_SECONDS)
    return not signalled


def _watch(cluster: LocalCluster, children: dict[int, subprocess.Popen[bytes]], signalled: list[int]) -> None:
    """Name every node that ends or comes back, until a signal comes."""
    known = {node.id: pid_of(node) for node in cluster.nodes}
    while not signalled:
        time.sleep(POLL_SECONDS)
        for node in cluster.nodes:
            pid, before = pid_of(node), known[node.id]
            if pid == before:
                continue
            known[node.id] = pid
            if before is not None:
                child = children.get(node.id)
                code = child.wait() if child is not None and child.pid == before else None
                warn(f"ottla cluster: node {node.id} (process {before}) {ending(code)}")
            if pid is not None:
                say(f"node {node.id} runs again, as process {pid}")


def stop_all(nodes: list[LocalNode]) -> bool:
    """Stop nodes cleanly and at once, paused ones too; what does not end in time is killed, named, and False returned."""
    pids = {}
    for node in nodes:
        pid = pid_of(node)
        if pid is None:
            continue
        pids[node.id] = send(node, signal.SIGTERM)
        if state_of(pid) == "paused":
            send(node, signal.SIGCONT)
    deadline = time.monotonic() + STOP_SECONDS_MAX
    clean = True
    for node in nodes:
        if node.id in pids and not await_end(pids[node.id], max(0.0, deadline - time.monotonic())):
            warn(f"ottla cluster: node {node.id} has not stopped after {STOP_SECONDS_MAX:.0f} s and is killed")
            await_end(send(node, signal.SIGKILL))
            clean = False
    return clean


def start_node(cluster: LocalCluster, node: LocalNode) -> None:
    """Start one node in the background and return when it is unfenced; raises OttlaError where it ends or does not come."""
    process = begin(node)
    with Watchers(cluster) as watchers:
        deadline = time.monotonic() + READY_SECONDS_MAX
        while node.id not in watchers.unfenced_at(node.id):
            if process.poll() is not None:
                raise OttlaError(f"node {node.id} {ending(process.returncode)}: {last_line(node.log)}")
            if time.monotonic() > deadline:
                raise OttlaError(f"node {node.id} is not ready after {READY_SECONDS_MAX:.0f} s; see {node.log}")
            time.sleep(POLL_SECONDS)
    say(f"node {node.id} serves on {cluster.address(node.id)}, process {process.pid}")


def print_status(cluster: LocalCluster, form: str) -> None:
    """Print how the nodes stand, as aligned columns or in another form."""
    rows = standing(cluster)
    columns = {name.upper(): name for name in rows[0]}
    if form == "text":
        print(f"Cluster ID: {cluster.cluster_id}")
        print_table([*columns], [list(row.values()) for row in rows])
    else:
        print_answer(form, Answer(rows, columns))


def say(text: str) -> None:
    """Print a line of progress at once."""
    print(text, flush=True, file=sys.stdout)


def _list(numbers: list[int]) -> str:
    return ("node " if len(numbers) == 1 else "nodes ") + ", ".join(map(str, numbers))
