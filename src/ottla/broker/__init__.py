"""The server: connections, the router, one file per Kafka API, partitions, the quorum's driver and housekeeping.

`Node` joins the parts and is all that others start; whoever asks a broker anything speaks Kafka's protocol to it.
`format_directory` prepares a folder before the first start. `SystemClock` and `ThreadsAndProcess` are the real world's
clock and off-loop work, for those who start a real node.
"""

from ottla.broker.clock import SystemClock
from ottla.broker.formatting import format_directory, standalone
from ottla.broker.node import Node
from ottla.broker.offload import ThreadsAndProcess
from ottla.broker.quorum.formatting import parse_initial_controllers

__all__ = [
    "Node",
    "SystemClock",
    "ThreadsAndProcess",
    "format_directory",
    "parse_initial_controllers",
    "standalone",
]
