"""What is wrong with a mirror's configuration is told at the setting that it is of."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from ottla.mirror.checkpoints import MirrorCheckpointConnector
from ottla.mirror.source import MirrorSourceConnector

WHOLE = {
    "name": "m",
    "connector.class": "any",
    "source.cluster.alias": "east",
    "target.cluster.alias": "west",
    "source.cluster.bootstrap.servers": "localhost:1",
    "target.cluster.bootstrap.servers": "localhost:2",
}


def wrong(
    kind: type[MirrorSourceConnector | MirrorCheckpointConnector], props: dict[str, str]
) -> dict[str, Sequence[str]]:
    return {name: each.errors for name, each in kind().validate(props).items() if each.errors}


@pytest.mark.parametrize("kind", [MirrorSourceConnector, MirrorCheckpointConnector])
@pytest.mark.parametrize("cluster", ["source", "target"])
def test_a_cluster_without_servers_is_told_at_its_alias(
    kind: type[MirrorSourceConnector | MirrorCheckpointConnector], cluster: str
) -> None:
    assert wrong(kind, WHOLE) == {}
    missing = f"{cluster}.cluster.bootstrap.servers"
    found = wrong(kind, {name: value for name, value in WHOLE.items() if name != missing})
    assert list(found) == [f"{cluster}.cluster.alias"]
    assert "bootstrap.servers" in found[f"{cluster}.cluster.alias"][0]


def test_settings_of_offset_syncs_are_refused_where_none_are_emitted() -> None:
    found = wrong(
        MirrorSourceConnector, WHOLE | {"emit.offset-syncs.enabled": "false", "offset-syncs.topic.location": "target"}
    )
    assert list(found) == ["offset-syncs.topic.location"]
