"""Controllers of the real Kafka beside nodes of ours, as voters or observers of one metadata log.

Their folders are formatted by our own code, which is one more thing that Kafka then has to agree with.
"""

from __future__ import annotations

import asyncio
import signal
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from random import SystemRandom

from ottla.broker import SystemClock
from ottla.broker.formatting import format_directory
from ottla.config import BrokerConfig
from ottla.log import LogDir, OsDisk
from ottla.raft import VoterSet
from tests import peer
from tests.cluster.nodes import CLUSTER_ID

__all__ = ["KafkaNode"]

FLAGS = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto", "-Xmx512m")
STOP_SECONDS_MAX = 100.0


@dataclass
class KafkaNode:
    """One process of Kafka; `overrides` are its settings."""

    node_id: int
    folder: Path
    overrides: tuple[str, ...]
    process: subprocess.Popen[bytes] | None = None

    @classmethod
    def format(cls, node_id: int, folder: Path, overrides: Iterable[str], voters: VoterSet | None = None) -> KafkaNode:
        """Write its settings, and give its folder an identity."""
        node = cls(node_id, folder, tuple(overrides))
        folder.mkdir(parents=True)
        config = BrokerConfig.load(overrides=node.overrides, environment={})
        (folder / "server.properties").write_text("\n".join(node.overrides) + "\n")
        log_dir = LogDir.open(OsDisk(), config.metadata_log_dir)
        now = SystemClock().now_ms()
        format_directory(config, log_dir, cluster_id=CLUSTER_ID, rng=SystemRandom(), now_ms=now, voters=voters)
        log_dir.release()
        return node

    def start(self, *, level: str = "warn") -> None:
        """Start the process, and return at once."""
        with (self.folder / "node.out").open("ab") as out:
            command = peer.java(*FLAGS, "kafka.Kafka", str(self.folder / "server.properties"))
            command = [each.replace("defaultLogLevel=warn", f"defaultLogLevel={level}") for each in command]
            self.process = subprocess.Popen(command, stdout=out, stderr=out)

    def kill(self) -> None:
        """End it as `kill -9` does."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    async def stop(self) -> None:
        """End it under control."""
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            await asyncio.to_thread(self.process.wait, STOP_SECONDS_MAX)
            self.process = None

    def said(self) -> str:
        """Return what it has printed."""
        return (self.folder / "node.out").read_text(errors="replace")
