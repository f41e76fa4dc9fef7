"""A broker that answers as a script says: what is needed to see a client meet old brokers, moved leaders and silence."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from ottla.base import WireError
from ottla.net import FrameProtocol, TcpNetwork
from ottla.wire import APIS, decode, encode_response, read_request_header
from ottla.wire.messages.api_versions import ApiVersion, ApiVersionsResponse
from ottla.wire.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

Script = Mapping[int, Callable[[Any, int], Any]]
"""API key -> (request, version) -> response message, or raw bytes to send, or None for silence."""


def offers(highest: Mapping[int, int]) -> Callable[[Any, int], Any]:
    """Answer ApiVersions with these APIs, each from version 0."""
    rows = [ApiVersion(api_key=key, min_version=0, max_version=version) for key, version in highest.items()]
    return lambda request, version: ApiVersionsResponse(api_keys=rows)


class ScriptedBroker:
    """One connection's worth of script per client; `asked` lists (api key, version, request) of every request."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.asked: list[tuple[int, int, Any]] = []
        self.port = 0

    def metadata(self, leaders: list[int], *, topic: str = "words", others: Mapping[int, int] = {}) -> MetadataResponse:
        """Describe a cluster of this broker as node 1, and others by node id and port, with one topic."""
        nodes = {1: self.port, **others}
        return MetadataResponse(
            brokers=[MetadataResponseBroker(node_id=node, host="127.0.0.1", port=port) for node, port in nodes.items()],
            controller_id=1,
            topics=[
                MetadataResponseTopic(
                    name=topic,
                    topic_id=bytes(15) + b"\x07",
                    partitions=[
                        MetadataResponsePartition(partition_index=index, leader_id=leader)
                        for index, leader in enumerate(leaders)
                    ],
                )
            ],
        )


class _Conversation:
    def __init__(self, broker: ScriptedBroker) -> None:
        self.broker = broker

    def connection_opened(self, frames: FrameProtocol) -> None:
        self.frames = frames

    def frame_received(self, frame: memoryview) -> None:
        header, at = read_request_header(frame)
        spec = APIS[header.api_key]
        version = min(header.api_version, spec.max_version)
        request, _ = decode(spec.request, frame, version, at)
        self.broker.asked.append((header.api_key, header.api_version, request))
        answer = self.broker.script[header.api_key](request, header.api_version)
        if isinstance(answer, bytes):
            self.frames.transport.write(answer)
        elif answer is not None:
            data = encode_response(answer, header.api_key, version, header.correlation_id)
            self.frames.transport.write(data)

    def batch_ended(self) -> None: ...

    def frame_refused(self, error: WireError) -> None: ...

    def writing_paused(self) -> None: ...

    def writing_resumed(self) -> None: ...

    def connection_closed(self, error: Exception | None) -> None: ...


@asynccontextmanager
async def scripted_broker(script: Script) -> AsyncIterator[ScriptedBroker]:
    """Run a scripted broker on a free port."""
    broker = ScriptedBroker(script)
    server = await TcpNetwork().listen("127.0.0.1", 0, lambda: FrameProtocol(_Conversation(broker)))
    broker.port = server.port
    try:
        yield broker
    finally:
        await server.close()
        await asyncio.sleep(0)
