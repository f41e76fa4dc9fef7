"""Connections and frames: the shell between a socket and whoever speaks Kafka's protocol.

`Network` is the seam through which broker and client listen and connect; `TcpNetwork` is the real one, the simulator
brings its own. `FrameProtocol` cuts the byte stream into length-prefixed frames and hands each to a `FrameReceiver`,
with bounds on what a peer can make it hold and with backpressure in both directions.
"""

from ottla.net.frames import FRAME_BYTES_MAX_DEFAULT, FrameProtocol, FrameReceiver, ReceiveBuffer
from ottla.net.network import Network, ProtocolFactory, Server, TcpNetwork
from ottla.net.request_memory import RequestMemory
from ottla.net.tls import TlsBuffer, TlsProtocol

__all__ = [
    "FRAME_BYTES_MAX_DEFAULT",
    "FrameProtocol",
    "FrameReceiver",
    "Network",
    "ProtocolFactory",
    "ReceiveBuffer",
    "RequestMemory",
    "Server",
    "TcpNetwork",
    "TlsBuffer",
    "TlsProtocol",
]
