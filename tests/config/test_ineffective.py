"""Settings that are accepted and change nothing are named at the start."""

from __future__ import annotations

from pathlib import Path

import pytest

from ottla.config import BROKER_KEYS, BrokerConfig
from ottla.config.ineffective import EFFECTIVE, INEFFECTIVE, ineffective

SOURCE = Path(__file__).resolve().parents[2] / "src" / "ottla"
GATE = "remote.log.storage.system.enable"
"""Read, so that topics may be given settings of tiered storage where Kafka's may; nothing is tiered all the same."""
BY_PART = {
    "group.share.max.size": "7",
    "share.coordinator.threads": "2",
    "group.streams.num.standby.replicas": "1",
    "remote.log.manager.thread.pool.size": "3",
    "sasl.kerberos.kinit.cmd": "/bin/kinit",
    "metric.reporters": "com.example.Reporter",
    "num.io.threads": "9",
    "queued.max.requests": "100",
    "log.dir.failure.timeout.ms": "1000",
    "fetch.purgatory.purge.interval.requests": "10",
}


@pytest.mark.parametrize(("key", "value"), BY_PART.items())
def test_a_setting_without_effect_is_named_once_it_differs_from_its_default(key: str, value: str) -> None:
    [warning] = BrokerConfig.load(f"{key}={value}\n").warnings
    assert key in warning and warning.startswith("without effect: ")
    default = BROKER_KEYS[key].default
    assert default is not None
    assert BrokerConfig.load(f"{key}={default}\n").warnings == ()


def test_keys_of_one_reason_share_a_line() -> None:
    found = ineffective({"group.share.max.size": "7", "group.share.assignors": "own", "num.io.threads": "9"})
    assert len(found) == 2
    assert "group.share.assignors, group.share.max.size" in found[0]


def test_what_is_said_to_be_without_effect_is_read_nowhere() -> None:
    generated = {"broker_keys.py", "broker_settings.py"}
    files = [each for each in SOURCE.rglob("*.py") if each.name not in generated and "messages" not in each.parts]
    source = "".join(each.read_text() for each in files)
    begins = tuple(each for _, starts in INEFFECTIVE for each in starts)
    named = [key for key in BROKER_KEYS if key.startswith(begins) and not key.startswith(EFFECTIVE)]
    assert len(named) > 100
    assert [key for key in named if f".{key.replace('.', '_')}" in source] == [GATE]
