"""`ottla connect-distributed worker.properties`: one of a group of Connect workers that share connectors and tasks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.cli.connect_worker import declare_worker, run_worker, worker_config
from ottla.cli.options import Options

if TYPE_CHECKING:
    import asyncio

    from ottla.spark import ConnectWorker

__all__ = ["main", "options"]

NOUN = "connect-distributed"


def options() -> Options:
    """Return the parser."""
    parser = Options(NOUN, "Run one of a group of Connect workers; their connectors come over REST.")
    declare_worker(parser)
    return parser


def main(argv: list[str]) -> int:
    """Run the worker until a signal comes; returns Kafka's exit codes."""
    args = options().parse(argv)

    async def begin(worker: ConnectWorker) -> asyncio.Future[None] | None:
        return worker.ended

    return run_worker(NOUN, argv, args, lambda: worker_config(args.worker, NOUN), begin, _herder)


def _herder(parts: Any) -> Any:
    from ottla.spark import distributed_herder

    return distributed_herder(parts)
