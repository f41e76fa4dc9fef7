"""Dead letters sent back to where they came from, each once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from ottla.admin.actions.plan import ActionPlan, Arguments, Difference, Planner, Reach, command, text
from ottla.admin.dead_letters import DONE_TOPIC, DeadLetter, dead_letters, redriven
from ottla.admin.errors import AdminError
from ottla.admin.fixes import Fixed, FixError, Fixing
from ottla.base import ErrorCode, KafkaError, OttlaError, TopicPartition

if TYPE_CHECKING:
    from ottla.wire import Record

__all__ = ["DEAD_LETTERS"]

TRIED_MAX = 10
"""Letters of which the plan shows what a fix changes."""
LETTERS_AT_ONCE = 500
"""In one transaction."""
TIMEOUT_MS = 60_000
DONE_CONFIGS = {"cleanup.policy": "compact"}
FROM = "ottla.redriven.from"
"""The header that says of a record that was sent back where it lay."""


def _redrive(reach: Reach, arguments: Arguments) -> ActionPlan:
    topic, cause, to = text(arguments, "topic"), arguments.get("cause"), arguments.get("to")
    if (cause is not None and not isinstance(cause, str)) or (to is not None and (not isinstance(to, str) or not to)):
        raise AdminError("cause and to are texts, where they are there")
    given = arguments.get("ends")
    ends = None if not isinstance(given, Mapping) else {int(index): int(end) for index, end in given.items()}
    letters, ends = dead_letters(reach.client, topic, ends)
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
    counts: dict[str, int] = {}
    for each in fresh:
        target = to or str(each.topic)
        counts[target] = counts.get(target, 0) + 1
    if topic in counts:
        raise AdminError(f"{topic} would be sent to itself")
    known = reach.client.metadata(list(counts)).topics
    if missing := sorted(name for name in counts if name not in known or known[name].error):
        raise KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"There is no topic {missing[0]}")
    effects = [f"{len(fresh):,} records are written, each in the partition that it came from, with its own headers."]
    effects += (
        [f"{len(wanted) - len(fresh):,} have been sent back before, and are not sent again."]
        if len(wanted) > len(fresh)
        else []
    )
    warnings = ["Where the reason is still there they come back as dead letters."]
    warnings += [f"{len(lost):,} letters do not say where they came from, and stay."] if lost else []
    warnings += [f"The fix does not fit {len(unfit):,} letters, which stay: {unfit[0]}"] if unfit else []
    pinned = {"topic": topic, "cause": cause, "to": to, "ends": {str(index): end for index, end in ends.items()}}
    pinned["fix"] = words or None
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
        command("plan", "redrive", *(f"{name}={value}" for name, value in pinned.items() if isinstance(value, str))),
        effects=tuple(effects),
        warnings=tuple(warnings),
        pinned=pinned,
        run=lambda each: _send(each, topic, fresh, to, tried),
    )


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
            yield Difference(f"{each.place}@{each.record.offset}/{mended.path}", mended.before, mended.after)


def _send(
    reach: Reach, topic: str, letters: Sequence[DeadLetter], to: str | None, fixed: Mapping[bytes, Fixed]
) -> None:
    """Write letters and what remembers them in transactions; whoever else sends letters of this topic is fenced."""
    from ottla.client import NewTopic, TransactionalProducer, create_topics, partition_of
    from ottla.wire import Record, build_batch

    client = reach.client
    refused = client.run(create_topics(client.client, [NewTopic(DONE_TOPIC, 1, configs=DONE_CONFIGS)]))
    error = refused.get(DONE_TOPIC)
    if error is not None and error.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
        raise error
    counts = {name: len(found.partitions) for name, found in client.metadata().topics.items()}
    producer = TransactionalProducer(client.client, f"ottla-redrive-{topic}", timeout_ms=TIMEOUT_MS)
    client.run(producer.begin())
    done = redriven(client, topic)  # after the fence: who had the id before can commit nothing any more
    fresh = [each for each in letters if each.key not in done]
    sequences: dict[TopicPartition, int] = {}
    try:
        for first in range(0, len(fresh), LETTERS_AT_ONCE):
            by_place: dict[TopicPartition, list[Record]] = {}
            for each in fresh[first : first + LETTERS_AT_ONCE]:
                name = to or str(each.topic)
                index = each.partition if to is None and each.partition is not None else None
                own = fixed.get(each.key) or Fixed(each.record.key, each.record.value, each.headers(), ())
                if index is None or index >= counts[name] or own.key != each.record.key:
                    index = partition_of(own.key, counts[name]) if own.key is not None else 0
                whence = f"{each.place}@{each.record.offset}".encode()
                record = Record(
                    timestamp=each.record.timestamp,
                    key=own.key,
                    value=own.value,
                    headers=(*own.headers, (FROM, whence)),
                )
                by_place.setdefault(TopicPartition(name, index), []).append(record)
                kept = Record(timestamp=each.record.timestamp, key=each.key, value=name.encode())
                by_place.setdefault(TopicPartition(DONE_TOPIC, 0), []).append(kept)
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
    except BaseException:
        if producer.is_open:
            client.run(producer.end(commit=False))
        raise


DEAD_LETTERS: Mapping[str, Planner] = {"redrive": _redrive}
