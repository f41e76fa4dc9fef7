"""Where signals come from and notifications go: whether a configuration has what its channels need."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from ottla.connect import ConfigValue
from ottla.connectors.cdc.notifications import CHANNELS as NOTIFIED
from ottla.connectors.cdc.signals import CHANNELS

__all__ = ["check_channels"]

_NEEDS: Final = (
    ("signal.enabled.channels", "kafka", "signal.kafka.bootstrap.servers"),
    ("notification.enabled.channels", "sink", "notification.sink.topic.name"),
)


def check_channels(values: Mapping[str, ConfigValue]) -> None:
    """Add what is wrong to the values' errors."""
    for name, known in (("signal.enabled.channels", CHANNELS), ("notification.enabled.channels", NOTIFIED)):
        channels = values[name]
        if not channels.errors and (unknown := [each for each in channels.value if each not in known]):
            channels.errors.append(f"{', '.join(unknown)} is not there: {', '.join(known)} are")
    for key, wanted, name in _NEEDS:
        if wanted in (values[key].value or ()) and not values[name].value:
            values[name].errors.append(f"{key}={wanted} needs it")
