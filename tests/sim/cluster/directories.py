"""Who moves replicas between the log directories of their brokers, under whatever load there is."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ottla.base import ErrorCode
from ottla.wire.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from tests.sim.client import NoAnswer
from tests.sim.cluster.client import MOVING, Application, Clients
from tests.sim.ledger import Violation

__all__ = ["move_between_directories"]

PASSING = {ErrorCode.NONE, ErrorCode.LOG_DIR_NOT_FOUND, *MOVING}
"""What may be heard: a broker need not hold a partition, and a directory may be offline."""


async def move_between_directories(
    clients: Clients,
    keys: Sequence[tuple[str, int]],
    brokers: Sequence[int],
    folders: Sequence[str],
    stop: asyncio.Event,
) -> None:
    """Ask some broker to keep some partition in some directory, again and again."""
    application, rng = Application(clients, "mover of logs"), clients.rng
    while not stop.is_set():
        await asyncio.sleep(1.5 * rng.random())
        topic, index = rng.choice(keys)
        wanted = AlterReplicaLogDirTopic(name=topic, partitions=[index])
        request = AlterReplicaLogDirsRequest(dirs=[AlterReplicaLogDir(path=rng.choice(folders), topics=[wanted])])
        try:
            link = await application.node(rng.choice(brokers))
            answer = await application.ask(link.connection, request, AlterReplicaLogDirsResponse)
        except NoAnswer:
            continue
        code = ErrorCode(answer.results[0].partitions[0].error_code)
        if code not in PASSING:
            raise Violation(f"moving {topic}-{index} between directories: {code.name}")
        clients.trace.note(f"move {topic}-{index} on {link.node}: {code.name}")
    application.close()
