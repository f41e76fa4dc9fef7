"""The peer itself: the real Kafka that other tests compare with."""

from __future__ import annotations

import pytest

from tests import peer


def test_every_tool_name_maps_to_a_class() -> None:
    assert all("." in name for name in peer.TOOLS.values())


@pytest.mark.peer
def test_the_peers_tools_run() -> None:
    result = peer.tool("storage", "random-uuid")
    assert result.returncode == 0 and len(result.stdout.strip()) == 22
