"""Dead letters sent back to where they came from, each once."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ottla.admin.actions.plan import ActionPlan, Arguments, Difference, Planner, Reach, command, text
from ottla.admin.actions.replays import duration, rate_of
from ottla.admin.dead_letters import (
    DeadLetter,
    dead_letters,
    make_done_topic,
    redrive_transactional_id,
    redriven,
    sent_back,
)
from ottla.admin.errors import AdminError
from ottla.admin.fixes import Fixed, FixError, Fixing
from ottla.base import ErrorCode, KafkaError, OttlaError, TopicPartition

if TYPE_CHECKING:
    from ottla.wire import Record

__all__ = ["DEAD_LETTERS"]

TRIED_MAX = 10
"""Letters of which the plan shows what a fix changes."""
SHOWN_MAX = 32 * 1024
LETTERS_AT_ONCE = 500
"""In one transaction."""
TIMEOUT_MS = 60_000
REPLAY_ID = re.compile(r"[0-9a-f]{12}")


def _redrive(reach: Reach, arguments: Arguments) -> ActionPlan:
    topic, cause, to = text(arguments, "topic"), arguments.get("cause"), arguments.get("to")
    if (cause is not None and not isinstance(cause, str)) or (to is not None and (not isinstance(to, str) or not to)):
        raise AdminError("cause and to are texts, where they are there")
    rate = rate_of(arguments, "letters")
    given = arguments.get("ends")
    ends = None if not isinstance(given, Mapping) else {int(index): int(end) for index, end in given.items()}
    found = dead_letters(reach.client, topic, ends)
    letters, ends = found.letters, found.ends
    fix = None if not (words := arguments.get("fix")) else _fix(reach, text(arguments, "fix"))
    chosen = [each for each in letters if cause is None or each.cause == cause]
    lost = [each for each in chosen if to is None and each.topic is None]
    wanted = [each for each in chosen if to is not None or each.topic is not None]
    done = redriven(reach.client, topic)
    fresh = [each for each in wanted if each.key not in done]
    tried: dict[bytes, Fixed] = {}
    unfit: list[str] = []
    if fix is not None:
        tried, unfit = _tried(fix, fresh)
        fresh = [each for each in fresh if each.key in tried]
        if not fresh and unfit:
            raise AdminError(f"The fix fits none of {len(unfit):,} letters: {unfit[0]}")
    if not fresh:
        reasons = "none of them says where it came from" if lost and not wanted else "all of them have been sent back"
        raise AdminError(f"There is nothing to send: {reasons}")
    counts = _targets(reach, topic, fresh, to)
    effects = [f"{len(fresh):,} records are written, each in the partition that it came from, with its own headers."]
    effects += (
        [f"{len(wanted) - len(fresh):,} have been sent back before, and are not sent again."]
        if len(wanted) > len(fresh)
        else []
    )
    warnings = ["Where the reason is still there they come back as dead letters."]
    warnings += [f"{len(lost):,} letters do not say where they came from, and stay."] if lost else []
    warnings += [f"The fix does not fit {len(unfit):,} letters, which stay: {unfit[0]}"] if unfit else []
    if found.cut_after is not None:
        warnings += [
            f"Only the newest letters are sent, {found.cut_after >> 20} MiB of them: send the others after them."
        ]
    pinned: dict[str, object] = {"topic": topic, "cause": cause, "to": to, "fix": words or None, "rate": rate}
    pinned["ends"] = {str(index): end for index, end in ends.items()}
    job = None
    if rate is not None:
        effects += [f"At {rate:,} a second it takes {duration(len(fresh) / rate)}."]
        if reach.replays is not None:
            job = _job(reach, arguments, pinned, fresh)
            effects += ["It stands under Replays, where it is paused, gone on with and cancelled."]
    return ActionPlan(
        "redrive",
        dict(arguments),
        (
            *(
                Difference(f"topic {name}/records sent back from {topic}", 0, count)
                for name, count in sorted(counts.items())
            ),
            *_shown(fresh, tried),
        ),
        command(
            "plan",
            "redrive",
            *(f"{name}={value}" for name, value in pinned.items() if isinstance(value, str | int) and name != "id"),
        ),
        effects=tuple(effects),
        warnings=tuple(warnings),
        pinned=pinned,
        run=lambda each: each.replayer().begin(job) if job is not None else _send(each, topic, fresh, to, tried, rate),
    )


def _targets(reach: Reach, topic: str, letters: Sequence[DeadLetter], to: str | None) -> dict[str, int]:
    """Return how many letters go to which topic; raises AdminError, UNKNOWN_TOPIC_OR_PARTITION where one is not there."""
    counts: dict[str, int] = {}
    for each in letters:
        target = to or str(each.topic)
        counts[target] = counts.get(target, 0) + 1
    if topic in counts:
        raise AdminError(f"{topic} would be sent to itself")
    known = reach.client.metadata(list(counts)).topics
    if missing := sorted(name for name in counts if name not in known or known[name].error):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {missing[0]}")
    return counts


def _job(
    reach: Reach, arguments: Arguments, pinned: dict[str, object], letters: Sequence[DeadLetter]
) -> dict[str, object]:
    """Return the replay that sends letters back at a rate; its id is the plan's, the same when it is planned again."""
    name = str(arguments.get("id") or secrets.token_hex(6))
    if not REPLAY_ID.fullmatch(name) or reach.replayer().is_known(name):
        raise AdminError("No such redrive was planned, or it has begun")
    pinned["id"] = name
    positions: dict[str, int] = {}
    for each in letters:
        index = str(each.place.partition)
        positions[index] = min(positions.get(index, int(each.record.offset)), int(each.record.offset))
    ends: Any = pinned["ends"]
    return {
        "id": name,
        "source": pinned["topic"],
        "target": pinned["to"] or "",
        "positions": positions,
        "ends": {index: ends[index] for index in positions},
        "rate": pinned["rate"],
        "letters": {"cause": pinned["cause"], "fix": pinned["fix"]},
    }


def _fix(reach: Reach, words: str) -> Fixing:
    if reach.fix is None:
        raise AdminError("Letters are not mended here")
    try:
        return reach.fix(words)
    except OttlaError as error:
        raise AdminError(str(error)) from None
    except RecursionError:
        raise AdminError("The fix is nested too deeply") from None


def _tried(fix: Fixing, letters: Sequence[DeadLetter]) -> tuple[dict[bytes, Fixed], list[str]]:
    """Return letters mended, by their keys, and why others cannot be."""
    found: dict[bytes, Fixed] = {}
    unfit: list[str] = []
    for each in letters:
        try:
            found[each.key] = fix.apply(each.record, each.headers())
        except FixError as error:
            unfit.append(f"{each.place}@{each.record.offset}: {error}")
    return found, unfit


def _shown(letters: Sequence[DeadLetter], fixed: Mapping[bytes, Fixed]) -> Iterator[Difference]:
    """Yield what a fix changes in the first letters."""
    for each in letters[:TRIED_MAX]:
        for mended in fixed[each.key].mended if each.key in fixed else ():
            path = f"{each.place}@{each.record.offset}/{mended.path}"
            yield Difference(path, _short(mended.before), _short(mended.after))


def _short(value: object) -> object:
    """Return a value for a plan, which is kept for a while: a long text cut, which says so."""
    if not isinstance(value, str) or len(value) <= SHOWN_MAX:
        return value
    return f"{value[:SHOWN_MAX]}… [cut after {SHOWN_MAX} of {len(value)}]"


def _send(
    reach: Reach,
    topic: str,
    letters: Sequence[DeadLetter],
    to: str | None,
    fixed: Mapping[bytes, Fixed],
    rate: int | None,
) -> None:
    """Write letters and what remembers them in transactions; whoever else sends letters of this topic is fenced."""
    from ottla.client import TransactionalProducer
    from ottla.wire import build_batch

    client = reach.client
    client.run(make_done_topic(client.client))
    counts = {name: len(found.partitions) for name, found in client.metadata().topics.items()}
    producer = TransactionalProducer(client.client, redrive_transactional_id(topic), timeout_ms=TIMEOUT_MS)
    client.run(producer.begin())
    done = redriven(client, topic)  # after the fence: who had the id before can commit nothing any more
    fresh = [each for each in letters if each.key not in done]
    sequences: dict[TopicPartition, int] = {}
    at_once = LETTERS_AT_ONCE if rate is None else min(LETTERS_AT_ONCE, max(1, rate // 4))
    began_s = time.monotonic()
    try:
        for first in range(0, len(fresh), at_once):
            by_place: dict[TopicPartition, list[Record]] = {}
            for each in fresh[first : first + at_once]:
                for place, record in sent_back(each, counts, to, fixed.get(each.key)):
                    by_place.setdefault(place, []).append(record)
            batches = {}
            for place, records in by_place.items():
                at = sequences.get(place, 0)
                batches[place] = build_batch(
                    records,
                    producer_id=producer.producer_id,
                    producer_epoch=producer.epoch,
                    base_sequence=at,
                    transactional=True,
                )
                sequences[place] = at + len(records)
            for answer in client.run(producer.produce(batches)):
                if answer.error:
                    raise KafkaError(answer.error)
            epoch = producer.epoch
            client.run(producer.end(commit=True))
            if producer.epoch != epoch:  # KIP-890: each transaction has an epoch, and each epoch sequences of its own
                sequences.clear()
            if rate is not None and first + at_once < len(fresh):
                time.sleep(max(0.0, began_s + (first + at_once) / rate - time.monotonic()))
    except BaseException:
        if producer.is_open:
            client.run(producer.end(commit=False))
        raise


DEAD_LETTERS: Mapping[str, Planner] = {"redrive": _redrive}
