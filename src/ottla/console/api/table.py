"""The console's interface in JSON: what each address answers, and its description as OpenAPI, from one table."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import asdict, replace
from importlib.util import find_spec
from typing import Any

from ottla.admin import ConfigEntity, describe_config, describe_group, describe_share_group, share_deliveries
from ottla.admin.actions import OF_SERVICES, plan_action
from ottla.base import ErrorCode, KafkaError, Millis, Offset, OttlaError, TopicPartition, bring_extra
from ottla.client import FetchPosition, Isolation, partition_of
from ottla.console.api.alerts import alert_endpoints
from ottla.console.api.cluster import cluster_endpoints
from ottla.console.api.connect import connect_endpoints
from ottla.console.api.endpoints import Endpoint, body, need, page_of, query_number
from ottla.console.api.letters import check_letters, letter_endpoints, letters_in_turn
from ottla.console.api.replays import replay_endpoints
from ottla.console.api.schemas import schema_endpoints
from ottla.console.api.sql import sql_change, sql_endpoints
from ottla.console.api.streams import streams_endpoints
from ottla.console.api.traffic import traffic_endpoints
from ottla.console.clusters import Cluster
from ottla.console.figures.views import (
    Finding,
    Seen,
    broker_rows,
    findings,
    group_partitions,
    group_row,
    group_rows,
    topic_row,
    topic_rows,
    why_behind,
    with_recent,
)
from ottla.console.places import Place
from ottla.console.plans import PlanGoneError, Plans, WorldMovedError
from ottla.console.records.decoding import DECODERS
from ottla.console.records.exports import EXPORT_ROWS_MAX, FORMATS, exported
from ottla.console.records.reads import Read
from ottla.console.records.requests import new_record, object_of, scan_request
from ottla.console.records.rows import Decoders, row_of
from ottla.console.records.scan_processes import ScanJob
from ottla.console.records.scans import Frame, ScanRequest, scan
from ottla.console.shown_settings import shown_settings
from ottla.http import HttpError, Reply, Request, StreamedReply, Who, json_reply
from ottla.wire import Record, build_batch, iter_batch_records, iter_batches

__all__ = ["Api", "scan_frames"]

LOOK_SECONDS_MAX = 5.0
RECORD_BYTES_MAX = 1 << 20
"""Of what is fetched where one record is asked for: one that is larger comes alone."""
WHOLE_AT_ONCE, SENT_AT_ONCE = 4, 8
"""Records that are fetched so, and held until they are sent, at a time, however large each is."""
PIECE_BYTES = 256 * 1024
NDJSON = "application/x-ndjson"


class Api:
    """Answers for any of the console's clusters."""

    def __init__(self, plans: Plans, *, now_ms: Callable[[], int]) -> None:
        self._plans = plans
        self._now_ms = now_ms

    def endpoints(self) -> list[Endpoint]:
        """Return the table."""
        return [*self._shown(), *self._asked()]

    def _shown(self) -> list[Endpoint]:
        topic = "/topics/{topic}"
        return [
            Endpoint(
                "GET", "/overview", "The verdict, key figures and what needs attention", self._overview, Who.SESSION
            ),
            Endpoint("GET", "/findings", "What needs attention", self._findings, Who.SESSION),
            Endpoint("GET", "/topics", "Topics: ?q=&sort=&cursor=&limit=&internal=", self._topics, Who.SESSION),
            Endpoint("GET", topic, "One topic, with its partitions and groups", self._topic, Who.SESSION),
            Endpoint(
                "GET",
                f"{topic}/config",
                "A topic's settings, with where each comes from",
                self._topic_config,
                Who.SESSION,
            ),
            Endpoint(
                "GET", f"{topic}/records/{{partition}}/{{offset}}", "One record, whole", self._record, Who.SESSION
            ),
            Endpoint(
                "GET",
                f"{topic}/records/{{partition}}/{{offset}}/{{part}}",
                "A record's key or value, its bytes as they are",
                self._record_part,
                Who.SESSION,
            ),
            Endpoint(
                "POST", f"{topic}/records", "Write a record", self._produce, Who.SESSION, body=RECORD_BODY, changes=True
            ),
            Endpoint("GET", "/groups", "Groups: ?q=&sort=&cursor=&limit=", self._groups, Who.SESSION),
            Endpoint("GET", "/groups/{group}", "One group, with its members and partitions", self._group, Who.SESSION),
            Endpoint("GET", "/brokers", "Brokers", self._brokers, Who.SESSION),
            Endpoint("GET", "/brokers/{broker}/config", "A broker's settings", self._broker_config, Who.SESSION),
            Endpoint(
                "GET",
                "/groups/{group}/deliveries",
                "How often a share group's records came",
                self._deliveries,
                Who.SESSION,
            ),
            Endpoint("GET", "/history", "A series: ?series=&from=&to=&points=", self._history, Who.SESSION),
        ]

    def _asked(self) -> list[Endpoint]:
        return [
            Endpoint("POST", "/scans", "Search a topic; frames as JSON lines", self._scan, Who.SESSION, body=SCAN_BODY),
            Endpoint(
                "POST",
                "/export",
                "A search's records as a file: jsonl, csv, parquet",
                self._export,
                Who.SESSION,
                body=EXPORT_BODY,
            ),
            Endpoint(
                "POST",
                "/plans",
                "Say what an action would change",
                self._plan,
                Who.SESSION,
                body=PLAN_BODY,
                changes=True,
            ),
            Endpoint(
                "POST",
                "/plans/{plan}/run",
                "Do what a plan says",
                self._run_plan,
                Who.SESSION,
                body=RUN_BODY,
                changes=True,
            ),
            *cluster_endpoints(),
            *connect_endpoints(),
            *schema_endpoints(),
            *letter_endpoints(),
            *sql_endpoints(),
            *streams_endpoints(),
            *traffic_endpoints(),
            *alert_endpoints(),
            *replay_endpoints(),
            Endpoint("GET", "/audit", "The newest changes", self._audit, Who.SESSION),
            Endpoint(
                "POST",
                "/audit/{entry}/undo",
                "A plan that takes a change back",
                self._undo,
                Who.SESSION,
                body={},
                changes=True,
            ),
        ]

    # -- what is sampled

    async def _overview(self, place: Place, request: Request) -> Reply:
        seen = await place.seen()
        return _sampled(place, seen, request, await _first_page(place, seen))

    async def overview(self, place: Place) -> dict[str, object]:
        """Return what `GET /overview` answers; raises OttlaError."""
        seen = await place.seen()
        return _dated(place, seen, await _first_page(place, seen))

    async def _findings(self, place: Place, request: Request) -> Reply:
        seen = await place.seen()
        found = [*await _ringing(place), *findings(seen)]
        return _sampled(place, seen, request, {"items": [asdict(each) for each in found]})

    async def _topics(self, place: Place, request: Request) -> Reply:
        seen = await place.seen()
        rows = topic_rows(seen)
        if request.query.get("internal") != "true":
            rows = [row for row in rows if not row["is_internal"]]
        return _sampled(place, seen, request, page_of(rows, request, "name"))

    async def _topic(self, place: Place, request: Request) -> Reply:
        name = request.match_info["topic"]
        seen = await place.seen_with(lambda sample: name in sample.topics)
        row = topic_row(seen, name)
        if row is None:
            raise HttpError(404, f"There is no topic {name}")
        allowed = (await place.allowed()).topics.get(name, frozenset())
        partitions = [{"partition": index, **asdict(each)} for index, each in sorted(seen.sample.topics[name].items())]
        groups = [with_recent(seen, each) for each in group_rows(seen, of_topic=name)]
        answer = {**row, "partition_rows": partitions, "group_rows": groups, "operations": sorted(allowed)}
        return _sampled(place, seen, request, answer)

    async def _groups(self, place: Place, request: Request) -> Reply:
        seen = await place.seen()
        page = page_of(group_rows(seen), request, "name")
        page["items"] = [with_recent(seen, each) for each in page["items"]]
        return _sampled(place, seen, request, page)

    async def _group(self, place: Place, request: Request) -> Reply:
        name = request.match_info["group"]
        seen = await place.seen_with(lambda sample: name in sample.groups)
        group = seen.sample.groups.get(name)
        if group is None:
            raise HttpError(404, f"There is no group {name}")
        members, assignor, epoch = None, "", None
        has: dict[str, frozenset[TopicPartition]] | None = None
        try:
            describe = describe_share_group if group.type == "share" else describe_group
            described = await place.cluster.admin(describe, name)
        except KafkaError as error:
            said = str(error)
        else:
            said, assignor, epoch = "", described.assignor, described.epoch
            has = {
                f"{each.client_id} at {each.host} ({each.member_id[-6:]})": frozenset(each.assignment)
                for each in described.members
            }
            members = [
                {
                    "id": each.member_id,
                    "instance_id": each.instance_id,
                    "client_id": each.client_id,
                    "host": each.host,
                    "partitions": [f"{one.topic}-{one.partition}" for one in each.assignment],
                }
                for each in described.members
            ]
        marks = seen.history.marks(f"lag/{name}", 0, 1 << 60)
        answer = {
            **with_recent(seen, group_row(seen, name, group)),
            "partition_rows": group_partitions(seen, name),
            "members": members,
            "members_error": said,
            "assignor": assignor,
            "epoch": epoch,
            "why": why_behind(seen, name, has),
            "marks": [asdict(each) for each in marks],
        }
        return _sampled(place, seen, request, answer)

    async def _deliveries(self, place: Place, request: Request) -> Reply:
        name = request.match_info["group"]
        seen = await place.seen()
        group = seen.sample.groups.get(name)
        if group is None or group.type != "share":
            raise HttpError(404, f"There is no share group {name}")
        topics = sorted({each.topic for each in group.committed})
        found = await place.cluster.admin(share_deliveries, name, topics)
        rows = [
            {"topic": each.topic, "partition": each.partition, **asdict(one)} for each, one in sorted(found.items())
        ]
        return json_reply({"items": rows})

    async def _brokers(self, place: Place, request: Request) -> Reply:
        seen = await place.seen()
        return _sampled(place, seen, request, {"items": broker_rows(seen)})

    async def _history(self, place: Place, request: Request) -> Reply:
        now = self._now_ms()
        series = request.query.get("series", "")
        if place.login is not None and not (await place.allowed()).may_read_series(series):
            raise HttpError(403, f"The history {series} may not be seen: it needs DESCRIBE", error_code=40300)
        to_ms = query_number(request, "to", now)
        from_ms = query_number(request, "from", to_ms - 3_600_000)
        points = query_number(request, "points", 600)
        history = place.sampler.history
        found = history.read(series, from_ms, to_ms, points)
        return json_reply(
            {
                "series": series,
                "period_s": place.sampler.period_s,
                "points": [[each.at_ms, each.last, each.least, each.most] for each in found],
                "marks": [asdict(each) for each in history.marks(series, from_ms, to_ms)],
            }
        )

    # -- what is asked of the cluster

    async def _topic_config(self, place: Place, request: Request) -> Reply:
        return await _config(place, ConfigEntity("topics", request.match_info["topic"]))

    async def _broker_config(self, place: Place, request: Request) -> Reply:
        number = request.match_info["broker"]
        if not number.isdigit():
            raise HttpError(404, f"There is no broker {number}")
        return await _config(place, ConfigEntity("brokers", number))

    async def _record_part(self, place: Place, request: Request) -> StreamedReply:
        """Send a key or value as it lies there, a piece at a time."""
        names = request.match_info
        if names["part"] not in ("key", "value"):
            raise HttpError(404, "A record has a key and a value")
        partition, offset = _place_of(names)
        if place.hidden(partition.topic) is not None:
            raise HttpError(
                403, f"Parts of {partition.topic} are masked here: its bytes are not sent", error_code=40302
            )
        if _sent_records.locked():
            raise HttpError(503, f"{SENT_AT_ONCE} whole records are being sent: ask again")
        await _sent_records.acquire()  # at once, and before the record is read, since it is held until it is sent
        try:
            found = await _read_record(place.cluster, partition, offset)
            data = found.key if names["part"] == "key" else found.value
            if data is None:
                raise HttpError(404, f"The record has no {names['part']}: it is null")
        except BaseException:
            _sent_records.release()
            raise
        pieces = _pieces(data)
        await anext(pieces)  # from here on it gives the place back, however it ends
        return StreamedReply(pieces, "application/octet-stream", headers={"Content-Disposition": "attachment"})

    async def _record(self, place: Place, request: Request) -> Reply:
        partition, offset = _place_of(request.match_info)
        wanted = request.query.get("decoder")
        if wanted is not None and wanted not in DECODERS:
            raise HttpError(400, f"decoder is one of {', '.join(DECODERS)}")
        found: Record | Read = await _read_record(place.cluster, partition, offset)
        values = place.values(partition.topic)
        if values is not None and isinstance(found, Record):
            (found,) = await values.read([found])
        masks = place.hidden(partition.topic)
        if masks is not None:
            found = masks.masked(found)
        row = row_of(partition.partition, found, Decoders(None, wanted), whole=True)
        hidden = [] if masks is None else [".".join(each.path) for each in masks.rules]
        return json_reply({**row, "masked": hidden})

    async def _produce(self, place: Place, request: Request) -> Reply:
        wanted, topic = new_record(object_of(await body(request))), request.match_info["topic"]
        client = place.cluster.client
        await client.metadata([topic])
        partitions = client.cluster.partitions_of(topic)
        if not partitions:
            raise HttpError(404, f"There is no topic {topic}")
        index = wanted.partition
        if index is None:
            index = (
                partition_of(wanted.key, len(partitions))
                if wanted.key is not None
                else self._now_ms() % len(partitions)
            )
        if index >= len(partitions):
            raise HttpError(400, f"{topic} has {len(partitions)} partitions, and no partition {index}")
        record = Record(
            timestamp=Millis(self._now_ms()), key=wanted.key, value=wanted.value, headers=tuple(wanted.headers)
        )
        (appended,) = await client.produce({TopicPartition(topic, index): build_batch([record])})
        return json_reply({"partition": index, "offset": int(appended.base_offset)}, status=201)

    async def _scan(self, place: Place, request: Request) -> StreamedReply:
        frames = await scan_frames(place, object_of(await body(request)))
        return StreamedReply(_lines(frames), NDJSON)

    async def _export(self, place: Place, request: Request) -> StreamedReply:
        asked = {"hits": EXPORT_ROWS_MAX, **object_of(await body(request))}
        kind = asked.pop("format", "jsonl")
        if not isinstance(kind, str) or kind not in FORMATS:
            raise HttpError(400, f"format is one of {', '.join(FORMATS)}")
        if kind == "parquet" and find_spec("pyarrow") is None:
            raise HttpError(400, f"Parquet needs the package pyarrow: {bring_extra('spark')}")
        if asked.get("from") == "live":
            raise HttpError(400, "What is exported ends: from is newest, oldest, offset or time")
        frames = await scan_frames(place, asked)
        return StreamedReply(exported(frames, kind), FORMATS[kind])

    # -- what is changed

    async def _plan(self, place: Place, request: Request) -> Reply:
        asked = object_of(await body(request))
        action, arguments = asked.get("action"), asked.get("arguments", {})
        if not isinstance(action, str):
            raise HttpError(400, "action is needed")
        return await self._planned(place, action, object_of(arguments))

    async def _planned(self, place: Place, action: str, arguments: Mapping[str, Any]) -> Reply:
        arguments = await self._allowed(place, action, arguments)
        async with letters_in_turn() if action == "redrive" else nullcontext():
            plan = await place.cluster.admin(lambda client: plan_action(place.reach(client), action, arguments))
        return json_reply({**plan.shown(), "id": self._plans.keep(place, plan)}, status=201)

    async def _allowed(self, place: Place, action: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return an action's arguments as they are planned; raises HttpError where who asks may not have it done here."""
        if action in OF_SERVICES:
            need(place, await place.allowed(), "ALTER")
        if action == "redrive":
            check_letters(place, str(arguments.get("topic", "")))
        return await sql_change(place, arguments) if action == "sql-statement" else arguments

    async def _run_plan(self, place: Place, request: Request) -> Reply:
        asked, name = object_of(await body(request)), request.match_info["plan"]
        try:
            plan = self._plans.known(place, name)
            await self._allowed(place, plan.action, plan.arguments)  # what was allowed may be so no more
            async with letters_in_turn() if plan.action == "redrive" else nullcontext():
                entry = await self._plans.run(place, name, hash=asked.get("hash"), typed=asked.get("typed"))
        except PlanGoneError as error:
            raise HttpError(404, str(error)) from None
        except WorldMovedError as error:
            return json_reply({"error_code": 409, "message": str(error), "plan": error.shown}, status=409)
        place.rights.ask_again()
        with suppress(TimeoutError):  # pages look at once, and shall see what was changed
            async with asyncio.timeout(LOOK_SECONDS_MAX):
                await place.sampler.look_again()
        return json_reply(entry.shown(), status=200 if entry.outcome == "done" else 422)

    async def _audit(self, place: Place, request: Request) -> Reply:
        found = self._plans.audit.newest(place.cluster.name, await self._whose(place))
        return json_reply({"items": [each.shown() for each in found]})

    async def _whose(self, place: Place) -> str | None:
        """Return whose changes are shown: one's own, and everybody's to who may alter the cluster."""
        if place.login is None or "ALTER" in (await place.allowed()).cluster:
            return None
        return place.who

    async def _undo(self, place: Place, request: Request) -> Reply:
        number = request.match_info["entry"]
        entry = self._plans.audit.entry(int(number)) if number.isdigit() else None
        if entry is None or entry not in self._plans.audit.newest(place.cluster.name, await self._whose(place)):
            raise HttpError(404, f"There is no change {number} (any more)")
        if entry.undo is None:
            raise HttpError(409, "This change cannot be taken back")
        return await self._planned(place, entry.undo.action, entry.undo.arguments)


async def _first_page(place: Place, seen: Seen) -> dict[str, object]:
    return place.summary.of(seen).with_findings(await _ringing(place))


async def _ringing(place: Place) -> list[Finding]:
    """Return the alerts that ring as findings, to who may see them."""
    if place.alerts is None or (place.login is not None and "DESCRIBE" not in (await place.allowed()).cluster):
        return []
    return [
        Finding(each.severity, f"Alert {each.name} rings", each.condition, "/alerts") for each in place.alerts.ringing()
    ]


async def scan_frames(place: Place, asked: Mapping[str, Any]) -> AsyncGenerator[Frame, None]:
    """Return the frames of the search that a body asks for; raises HttpError, KafkaError."""
    request, at = scan_request(asked)
    masks = place.hidden(request.topic)
    if masks is not None:
        hidden = None if request.condition is None else masks.refuses(request.condition)
        if hidden is None and request.key is not None and any(each.path[0] == "key" for each in masks.rules):
            hidden = "key"
        if hidden is not None:
            raise HttpError(403, f"{hidden} is masked here: no search may ask about it", error_code=40302)
    if request.key is not None and request.partitions is None and asked.get("everywhere") is not True:
        request = replace(request, partitions=(await _partition(place, request.topic, request.key),))
    start = asked.get("from")
    if at is not None and start in ("offset", "time") and not request.positions:
        request = await _placed(place, request, start, at)
    if place.searches is None:
        return scan(place.cluster.reader(), request, place.values(request.topic), masks)
    body = {**asked, "partitions": None if request.partitions is None else list(request.partitions)}
    job = ScanJob(
        *(place.cluster.settings, place.cluster.credentials, body, request.positions or None),
        *(place.registry_properties, masks, place.decoders),
    )
    return place.searches.frames(job, place.who)


async def _partition(place: Place, topic: str, key: bytes) -> int:
    """Return where Kafka's partitioner puts a key."""
    client = place.cluster.client
    await client.metadata([topic])
    partitions = client.cluster.partitions_of(topic)
    if not partitions:
        raise HttpError(404, f"There is no topic {topic}")
    return partition_of(key, len(partitions))


async def _placed(place: Place, request: ScanRequest, start: str, at: int) -> ScanRequest:
    client = place.cluster.client
    await client.metadata([request.topic])
    partitions = client.cluster.partitions_of(request.topic)
    if not partitions:
        raise HttpError(404, f"There is no topic {request.topic}")
    if start == "offset":
        return replace(request, positions={each.partition: at for each in partitions})
    found = await client.list_offsets(dict.fromkeys(partitions, Millis(at)))
    none = 1 << 62  # where nothing is that young: the end
    positions = {each.partition: int(listed.offset) if listed.offset >= 0 else none for each, listed in found.items()}
    return replace(request, positions=positions)


async def _lines(frames: AsyncGenerator[Frame, None]) -> AsyncGenerator[bytes, None]:
    try:
        async for frame in frames:
            yield json.dumps(frame, ensure_ascii=False, separators=(",", ":")).encode(errors="replace") + b"\n"
    except OttlaError as error:
        yield json.dumps({"type": "error", "message": str(error)}).encode() + b"\n"


def _place_of(names: Mapping[str, str]) -> tuple[TopicPartition, int]:
    """Return where an address says that a record is; raises HttpError."""
    index, offset = names["partition"], names["offset"]
    if not all(each.isascii() and each.isdigit() and len(each) < 19 for each in (index, offset)) or len(index) > 9:
        raise HttpError(404, "A partition and an offset are numbers")
    return TopicPartition(names["topic"], int(index)), int(offset)


async def _pieces(data: bytes) -> AsyncGenerator[bytes, None]:
    """Yield nothing, so that it has begun, then the pieces; give back a place among those that are sent."""
    try:
        yield b""
        for start in range(0, len(data), PIECE_BYTES):
            yield data[start : start + PIECE_BYTES]
    finally:
        _sent_records.release()


_whole_records, _sent_records = asyncio.Semaphore(WHOLE_AT_ONCE), asyncio.Semaphore(SENT_AT_ONCE)


async def _read_record(cluster: Cluster, partition: TopicPartition, offset: int) -> Record:
    client = cluster.reader()
    try:
        async with asyncio.timeout(20), _whole_records:
            (found,) = await client.fetch(
                [FetchPosition(partition, Offset(offset), RECORD_BYTES_MAX)],
                max_wait_ms=0,
                isolation=Isolation.READ_UNCOMMITTED,
            )
            if found.error is ErrorCode.OFFSET_OUT_OF_RANGE:
                raise HttpError(404, f"{partition} has no offset {offset}: it is deleted by now, or not written yet")
            records = found.check().records
            for header, at in iter_batches(records):
                if header.next_offset > offset and not header.is_control:
                    for record in iter_batch_records(records, at, header):
                        if record.offset >= offset:
                            if record.offset == offset:
                                return record
                            raise HttpError(404, f"{partition} has no record at {offset}: compaction has removed it")
    finally:
        await client.close()
    raise HttpError(404, f"{partition} has no record at offset {offset}")


async def _config(place: Place, entity: ConfigEntity) -> Reply:
    values = await place.cluster.admin(describe_config, entity)
    types = {each.name: "PASSWORD" if each.sensitive else "STRING" for each in values}  # the broker knows them
    shown = shown_settings({each.name: each.value for each in values if not each.sensitive}, types)
    rows = [
        {
            "name": each.name,
            "value": shown.get(each.name),
            "source": each.source,
            "read_only": each.read_only,
            "sensitive": each.sensitive,
            "is_default": each.is_default,
            "is_set_here": each.is_set_for(entity),
            "synonyms": []
            if each.sensitive or shown[each.name] != each.value
            else [list(one) for one in each.synonyms],
        }
        for each in values
    ]
    return json_reply({"items": sorted(rows, key=lambda row: str(row["name"]))})


def _sampled(place: Place, seen: Seen, request: Request, answer: Mapping[str, object]) -> Reply:
    """Return an answer with the time of its sample; one that the page has already is 304 (`ETag`)."""
    reply = json_reply(_dated(place, seen, answer))
    tag = f'"{hashlib.sha256(reply.body).hexdigest()[:24]}"'
    if request.headers.get("If-None-Match") == tag:
        return Reply(b"", reply.content_type, 304, {"ETag": tag, "Cache-Control": "no-cache"})
    return replace(reply, headers={"ETag": tag, "Cache-Control": "no-cache"})


def _dated(place: Place, seen: Seen, answer: Mapping[str, object]) -> dict[str, object]:
    return {
        "sampled_at": seen.sample.at_ms,
        "period_s": place.sampler.period_s,
        "partial": list(seen.sample.partial),
        "error": place.sampler.error,
        **answer,
    }


TEXT: Mapping[str, object] = {"type": ["string", "null"]}
RECORD_BODY: Mapping[str, object] = {
    "key": TEXT,
    "value": TEXT,
    "partition": {"type": "integer", "minimum": 0},
    "headers": {"type": "array", "items": {"type": "object"}},
}
SCAN_BODY: Mapping[str, object] = {
    "topic": {"type": "string"},
    "from": {"enum": ["newest", "oldest", "offset", "time"]},
    "at": {"type": "integer", "minimum": 0},
    "where": {"type": "string"},
    "hits": {"type": "integer", "minimum": 1, "maximum": 5000},
    "cursor": {"type": "object"},
    "partitions": {"type": "array", "items": {"type": "integer"}},
    "key_decoder": {"enum": list(DECODERS)},
    "value_decoder": {"enum": list(DECODERS)},
    "uncommitted": {"type": "boolean"},
    "key": {"type": ["string", "null"]},
    "everywhere": {"type": "boolean"},
}
EXPORT_BODY: Mapping[str, object] = {**SCAN_BODY, "format": {"enum": list(FORMATS)}}
PLAN_BODY: Mapping[str, object] = {"action": {"type": "string"}, "arguments": {"type": "object"}}
RUN_BODY: Mapping[str, object] = {"hash": {"type": "string"}, "typed": {"type": "string"}}
