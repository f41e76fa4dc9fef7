"""The server: connections, the router, one file per Kafka API, partitions, the quorum's driver and housekeeping.

`Node` joins the parts and is all that others start; whoever asks a broker anything speaks Kafka's protocol to it.
`format_directory` prepares a folder before the first start, and `mechanisms_of` reads how clients log in. `SystemClock`
and `ThreadsAndProcess` are the real world's clock and off-loop work, for those who start a real node.
"""

from ottla.broker.clock import SystemClock
from ottla.broker.formatting import format_directory, standalone
from ottla.broker.node import Node
from ottla.broker.offload import ThreadsAndProcess
from ottla.broker.quorum.formatting import parse_initial_controllers
from ottla.broker.sasl.mechanisms import mechanisms_of

__all__ = [
    "Node",
    "SystemClock",
    "ThreadsAndProcess",
    "format_directory",
    "mechanisms_of",
    "parse_initial_controllers",
    "standalone",
]
