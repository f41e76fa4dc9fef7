"""Records of one topic written to another, each once, as a search finds them and at a rate."""

from __future__ import annotations

import shlex
from typing import Any

from ottla.admin.actions.plan import ActionPlan, Arguments, Difference, Planner, Reach, command, number, text
from ottla.admin.errors import AdminError
from ottla.base import ErrorCode, KafkaError

__all__ = ["REPLAYS", "duration", "rate_of"]

RATE_MAX = 1_000_000


def _replay(reach: Reach, arguments: Arguments) -> ActionPlan:
    source, target = text(arguments, "source"), text(arguments, "target")
    if source == target:
        raise AdminError("A topic is not replayed to itself: it would never end")
    rate_of(arguments, "records")
    known = reach.client.metadata([source, target])
    for each in (source, target):
        if not known.partitions_of(each):
            raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {each}")
    replay = reach.replayer().prepared(arguments)
    counted = replay["counted"]
    if counted["is_whole"] and not counted["hits"]:
        raise AdminError(f"There is nothing to replay: none of {counted['looked']:,} records is wanted")
    return ActionPlan(
        "replay",
        dict(arguments),
        (Difference(f"topic {target}/records from {source}", 0, _said(counted)),),
        _command(replay),
        effects=tuple(_effects(replay)),
        warnings=tuple(_warnings(reach, replay)),
        pinned=replay,
        run=lambda each: each.replayer().begin(replay),
    )


def rate_of(arguments: Arguments, what: str) -> int | None:
    """Return how many a second are asked for, None for as many as go; raises AdminError."""
    rate = number(arguments, "rate")
    if rate is not None and not 1 <= rate <= RATE_MAX:
        raise AdminError(f"rate is {what} a second, from 1 to {RATE_MAX:,}")
    return rate


def _said(counted: dict[str, Any]) -> object:
    hits, looked = counted["hits"], counted["looked"]
    return hits if counted["is_whole"] else f"more than {hits:,}: {looked:,} records were looked at so far"


def _effects(replay: dict[str, Any]) -> list[str]:
    counted, rate = replay["counted"], replay["rate"]
    looked = f"{counted['hits']:,} of {counted['looked']:,} records"
    found = [
        f"{looked} that were looked at are wanted; what comes from now on is not replayed.",
        "Each is written once, with its key, headers and time, and a header ottla.replayed.from.",
        "It goes to the partition of its key; without a key, to that of the same number.",
    ]
    if rate is not None and counted["is_whole"]:
        found.append(f"At {rate:,} a second it takes {duration(counted['hits'] / rate)}.")
    return found


def _warnings(reach: Reach, replay: dict[str, Any]) -> list[str]:
    known = reach.client.metadata([replay["source"], replay["target"]])
    counts = [len(known.partitions_of(replay[each])) for each in ("source", "target")]
    found = ["What is written cannot be taken back."]
    if counts[0] != counts[1]:
        found.append(f"{replay['source']} has {counts[0]} partitions, {replay['target']} has {counts[1]}.")
    return found


def duration(seconds: float) -> str:
    """Return a time for people."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} minutes" if seconds < 7200 else f"{seconds / 3600:.1f} hours"


def _command(replay: dict[str, Any]) -> str:
    given = {key: replay[key] for key in ("source", "target", "where", "rate") if replay[key]}
    words = " ".join(shlex.quote(f"{key}={value}") for key, value in given.items())
    return f"{command('plan', 'replay')} {words}"


REPLAYS: dict[str, Planner] = {"replay": _replay}
