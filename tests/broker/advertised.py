"""What Kafka's two listeners advertise, written down from Apache Kafka 4.3.0, and where ours leave something out.

`kafka_api_versions.json` holds Kafka's facts; `test_api_versions_peer.py` holds them against a broker of Kafka's, and
`test_api_versions.py` ours against them, so that the comparison needs no peer.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from ottla.wire import APIS
from ottla.wire.messages.api_versions import ApiVersionsRequest
from tests.broker.node_client import NodeClient

__all__ = [
    "FACTS",
    "MISSING",
    "MISSING_MAX",
    "OWN",
    "UNFINALIZED",
    "Advertised",
    "asked",
    "expected",
    "with_controller",
]

FACTS_PATH = Path(__file__).with_name("kafka_api_versions.json")
Advertised = Mapping[str, Mapping[str, Any]]
"""`apis`: name -> range; `supported`: feature -> range; `finalized`: feature -> level."""
FACTS: Mapping[str, Advertised] = json.loads(FACTS_PATH.read_text())
"""Listener -> what Kafka answers in version 4."""

SHARE = "share groups (KIP-932) are not built"
STREAMS = "groups of the streams protocol (KIP-1071) are not built; Kafka Streams works with the classic one"
MISSING: Mapping[str, str] = {
    "ShareGroupHeartbeat": SHARE,
    "ShareGroupDescribe": SHARE,
    "ShareFetch": SHARE,
    "ShareAcknowledge": SHARE,
    "InitializeShareGroupState": SHARE,
    "ReadShareGroupState": SHARE,
    "WriteShareGroupState": SHARE,
    "DeleteShareGroupState": SHARE,
    "ReadShareGroupStateSummary": SHARE,
    "DescribeShareGroupOffsets": SHARE,
    "AlterShareGroupOffsets": SHARE,
    "DeleteShareGroupOffsets": SHARE,
    "StreamsGroupHeartbeat": STREAMS,
    "StreamsGroupDescribe": STREAMS,
}
"""APIs that Kafka advertises without any configuration and ours do not serve, and why. An API that is served leaves the
list with the same change. Telemetry (71, 72) is not here: Kafka advertises it only where a plugin receives it."""
MISSING_MAX = 14
"""How many they are. The list only shrinks, and this with it."""
OWN: Mapping[str, list[int]] = {"DescribeClientTraffic": [0, 0]}
"""APIs of ours that brokers advertise beside Kafka's, from key 1000 on."""
UNFINALIZED: Mapping[str, str] = {"share.version": SHARE, "streams.version": STREAMS}
"""Features of which a new cluster of Kafka's finalizes a level and one of ours none, and why. Only shrinks as well."""


def with_controller(port: int) -> tuple[str, ...]:
    """Return the settings of a node that is its own controller, which listens on this port, as the peer's are."""
    return (
        f"listeners=PLAINTEXT://127.0.0.1:0,CONTROLLER://127.0.0.1:{port}",
        "process.roles=broker,controller",
        "node.id=1",
        f"controller.quorum.voters=1@127.0.0.1:{port}",
        "controller.listener.names=CONTROLLER",
        "listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
    )


async def asked(port: int, version: int = 4) -> Advertised:
    """Return what a listener on this port advertises; names in place of keys, since the APIs are what one reads about."""
    client = NodeClient(cast(Any, None), *await asyncio.open_connection("127.0.0.1", port))
    request = ApiVersionsRequest(client_software_name="ottla-test", client_software_version="1.0")
    answer = await client.ask(request, version)
    client.close()
    assert answer.error_code == 0
    return {
        "apis": {APIS[each.api_key].name: [each.min_version, each.max_version] for each in answer.api_keys},
        "supported": {each.name: [each.min_version, each.max_version] for each in answer.supported_features},
        "finalized": {
            each.name: [each.min_version_level, each.max_version_level] for each in answer.finalized_features
        },
    }


def expected(kafkas: Advertised) -> Advertised:
    """Return what a listener of ours is to advertise where Kafka's advertises this."""
    apis = {name: versions for name, versions in kafkas["apis"].items() if name not in MISSING}
    return {
        **kafkas,
        "apis": apis | (OWN if "Produce" in apis else {}),
        "finalized": {name: levels for name, levels in kafkas["finalized"].items() if name not in UNFINALIZED},
    }
