"""What the pages of access, users, quotas, transactions, the quorum and reassignments ask of the brokers, as who asks."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from ottla.admin import (
    CLIENT_QUOTAS,
    ConfigEntity,
    describe_acls,
    describe_config,
    describe_credentials,
    describe_delegation_tokens,
    describe_features,
    describe_producers,
    describe_quorum,
    describe_quotas,
    describe_transaction,
    find_hanging_transactions,
    led_partitions,
    list_reassignments,
    list_transactions,
)
from ottla.admin.actions import acl_fields
from ottla.base import ErrorCode, KafkaError, OttlaError, TopicPartition, uuid_text
from ottla.client import BlockingClient
from ottla.console.api.endpoints import Endpoint, page_of, query_number
from ottla.console.places import Place
from ottla.http import HttpError, Reply, Request, Who, json_reply
from ottla.security import AclFilter, Operation, Resource, StandardAuthorizer

__all__ = ["cluster_endpoints"]

T = TypeVar("T")
DESCRIBED_MAX = 200
"""Transactions that are described one by one for a list."""
OLD_MS = 15 * 60_000
QUOTA_KINDS: tuple[tuple[str, ...], ...] = (("user", "client-id"), ("user",), ("client-id",), ("ip",))


def cluster_endpoints() -> list[Endpoint]:
    """Return the part of the table."""
    return [
        Endpoint("GET", "/access", "Entries of access: ?q=&cursor=&limit=", _access, Who.SESSION),
        Endpoint(
            "GET",
            "/access/check",
            "May somebody do something: ?principal=&host=&operation=&type=&name=",
            _check,
            Who.SESSION,
        ),
        Endpoint("GET", "/users", "Users with SCRAM passwords, and delegation tokens", _users, Who.SESSION),
        Endpoint("GET", "/quotas", "Quotas of users, clients and addresses", _quotas, Who.SESSION),
        Endpoint("GET", "/transactions", "Transactional ids: ?q=&sort=&cursor=&limit=", _transactions, Who.SESSION),
        Endpoint("GET", "/hanging", "Transactions that nobody will end: ?topic=&older=", _hanging, Who.SESSION),
        Endpoint(
            "GET", "/topics/{topic}/producers", "Producers that a topic's partitions know", _producers, Who.SESSION
        ),
        Endpoint("GET", "/quorum", "The metadata's quorum, and features", _quorum, Who.SESSION),
        Endpoint(
            "GET", "/reassignments", "What is being moved, how far it is, and throttles", _reassignments, Who.SESSION
        ),
    ]


async def _answer(place: Place, answer: Mapping[str, object]) -> Reply:
    rights = await place.allowed()
    return json_reply({"operations": sorted(rights.cluster), **answer})


def _tried(client: BlockingClient, call: Callable[[BlockingClient], T], errors: list[str]) -> T | None:
    """Return what a call brings, or None and why it brings nothing: a page then shows the rest."""
    try:
        return call(client)
    except OttlaError as error:
        errors.append(str(error))
        return None


async def _access(place: Place, request: Request) -> Reply:
    try:
        found = await place.cluster.admin(describe_acls, AclFilter())
    except KafkaError as error:
        if error.code is ErrorCode.SECURITY_DISABLED:
            return await _answer(place, {"secured": False, "items": [], "total": 0, "cursor": None})
        raise
    rows: list[dict[str, object]] = [
        {**acl_fields(each), "text": f"{each.principal} {each.resource_name} {each.operation.name}"} for each in found
    ]
    return await _answer(place, {"secured": True, **page_of(rows, request, "text")})


async def _check(place: Place, request: Request) -> Reply:
    query = request.query
    principal, name, host = query.get("principal", ""), query.get("name", ""), query.get("host") or "*"
    kinds, operations = {each.name: each for each in Resource}, {each.name: each for each in Operation}
    kind, operation = kinds.get(query.get("type", "")), operations.get(query.get("operation", ""))
    if ":" not in principal or not name or kind is None or operation is None:
        raise HttpError(400, "principal (TYPE:NAME), type, name and operation are needed")

    def ask(client: BlockingClient) -> dict[str, object]:
        authorizer = StandardAuthorizer()
        entries = describe_acls(client, AclFilter())
        authorizer.load({number.to_bytes(16, "big"): each for number, each in enumerate(entries)})
        decision = authorizer.decide(principal, host, operation, kind, name)
        return {
            "allowed": decision.allowed,
            "rule": RULES.get(decision.rule, decision.rule),
            "entry": None if decision.acl is None else acl_fields(decision.acl),
            "warnings": [] if decision.acl is not None and decision.allowed else [NOT_TOLD],
        }

    return await _answer(place, await place.cluster.admin(ask))


RULES = {"DefaultDeny": "No entry allows it.", "MatchingAcl": "This entry decides."}
NOT_TOLD = (
    "Brokers do not tell who is a super user (super.users), nor allow.everyone.if.no.acl.found: both would allow it."
)


async def _users(place: Place, request: Request) -> Reply:
    errors: list[str] = []

    def ask(client: BlockingClient) -> dict[str, object]:
        users = _tried(client, describe_credentials, errors) or {}
        tokens = _tried(client, describe_delegation_tokens, [])
        return {
            "items": [{"user": name, "mechanisms": found} for name, found in users.items()],
            "tokens": [
                {
                    "id": each.token_id,
                    "owner": each.owner,
                    "requester": each.requester,
                    "issue_ms": each.issue_ms,
                    "expiry_ms": each.expiry_ms,
                    "max_ms": each.max_ms,
                }
                for each in tokens or ()
            ],
            "tokens_known": tokens is not None,
        }

    answer = await place.cluster.admin(ask)
    return await _answer(place, {**answer, "partial": errors})


async def _quotas(place: Place, request: Request) -> Reply:
    def ask(client: BlockingClient) -> list[dict[str, object]]:
        return [
            {"entity": dict(each.entity), "values": dict(each.values)}
            for kinds in QUOTA_KINDS
            for each in describe_quotas(client, dict.fromkeys(kinds))
        ]

    return await _answer(place, {"items": await place.cluster.admin(ask), "names": list(CLIENT_QUOTAS)})


async def _transactions(place: Place, request: Request) -> Reply:
    errors: list[str] = []

    def ask(client: BlockingClient) -> list[dict[str, object]]:
        rows: list[dict[str, object]] = []
        described = 0
        for each in list_transactions(client):
            row: dict[str, object] = {
                "id": each.transactional_id,
                "state": each.state,
                "coordinator": each.coordinator,
                "producer_id": each.producer_id,
                "started_ms": None,
                "timeout_ms": None,
                "partitions": [],
            }
            if each.state in ("Ongoing", "PrepareCommit", "PrepareAbort") and described < DESCRIBED_MAX:
                described += 1
                name = each.transactional_id
                found = _tried(client, lambda one, name=name: describe_transaction(one, name), errors)  # type: ignore[misc]
                if found is not None:
                    row |= {"started_ms": found.started_ms, "timeout_ms": found.timeout_ms}
                    row["partitions"] = [str(one) for one in found.partitions]
            rows.append(row)
        return rows

    rows = await place.cluster.admin(ask)
    return await _answer(place, {**page_of(rows, request, "id"), "partial": errors[:5], "now_ms": _now_ms()})


async def _hanging(place: Place, request: Request) -> Reply:
    topic, older_ms = request.query.get("topic") or None, query_number(request, "older", OLD_MS)

    def ask(client: BlockingClient) -> list[dict[str, object]]:
        partitions = led_partitions(client, topic, None)
        found = find_hanging_transactions(client, partitions, older_than_ms=older_ms, now_ms=_now_ms())
        return [
            {
                "topic": each.partition.topic,
                "partition": each.partition.partition,
                "producer_id": each.producer_id,
                "epoch": each.epoch,
                "start_offset": each.start_offset,
                "last_ms": each.last_timestamp,
            }
            for each in found
        ]

    return await _answer(place, {"items": await place.cluster.admin(ask), "older_ms": older_ms})


async def _producers(place: Place, request: Request) -> Reply:
    topic = request.match_info["topic"]

    def ask(client: BlockingClient) -> list[dict[str, object]]:
        return [
            {
                "partition": each.partition.partition,
                "producer_id": each.producer_id,
                "epoch": each.epoch,
                "last_sequence": each.last_sequence,
                "last_ms": each.last_timestamp,
                "start_offset": each.start_offset,
            }
            for partition in led_partitions(client, topic, None)[:DESCRIBED_MAX]
            for each in describe_producers(client, partition)
        ]

    return await _answer(place, {"items": await place.cluster.admin(ask)})


async def _quorum(place: Place, request: Request) -> Reply:
    errors: list[str] = []

    def ask(client: BlockingClient) -> dict[str, object]:
        found, whole = describe_quorum(client)
        places = {
            node.node_id: [f"{each.name}://{each.host}:{each.port}" for each in node.listeners] for node in whole.nodes
        }
        leader = next((each for each in found.current_voters if each.replica_id == found.leader_id), None)
        end = -1 if leader is None else leader.log_end_offset

        def rows(nodes: Any) -> list[dict[str, object]]:
            return [
                {
                    "id": each.replica_id,
                    "directory_id": uuid_text(each.replica_directory_id),
                    "is_leader": each.replica_id == found.leader_id,
                    "end": each.log_end_offset,
                    "lag": max(0, end - each.log_end_offset) if each.log_end_offset >= 0 else None,
                    "fetched_ms": each.last_fetch_timestamp,
                    "caught_up_ms": each.last_caught_up_timestamp,
                    "listeners": places.get(each.replica_id, []),
                }
                for each in nodes
            ]

        features = _tried(client, describe_features, errors)
        return {
            "leader": found.leader_id,
            "epoch": found.leader_epoch,
            "high_watermark": found.high_watermark,
            "voters": rows(found.current_voters),
            "observers": rows(found.observers),
            "features": [
                {"name": each.name, "level": each.finalized, "least": each.lowest, "most": each.highest}
                for each in features or ()
            ],
        }

    return await _answer(place, {**await place.cluster.admin(ask), "partial": errors, "now_ms": _now_ms()})


async def _reassignments(place: Place, request: Request) -> Reply:
    errors: list[str] = []

    def ask(client: BlockingClient) -> dict[str, object]:
        moving = list_reassignments(client)
        sizes = _copies(client, set(moving), errors) if moving else {}
        rows = []
        for partition, each in moving.items():
            known = [sizes.get((partition, node), 0) for node in each.replicas]
            whole = max(known, default=0)
            there = sum(min(whole, sizes.get((partition, node), 0)) for node in each.adding)
            rows.append(
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "replicas": list(each.replicas),
                    "adding": list(each.adding),
                    "removing": list(each.removing),
                    "bytes": whole * len(each.adding),
                    "copied": there,
                }
            )
        return {"items": rows, "throttles": _throttles(client, errors)}

    return await _answer(place, {**await place.cluster.admin(ask), "partial": errors})


def _copies(
    client: BlockingClient, partitions: set[TopicPartition], errors: list[str]
) -> dict[tuple[TopicPartition, int], int]:
    """Return how large the copies of partitions are, by broker."""
    from ottla.wire.messages.describe_log_dirs import DescribeLogDirsRequest

    found: dict[tuple[TopicPartition, int], int] = {}
    for node in client.metadata(()).nodes:
        request = DescribeLogDirsRequest(topics=None)
        answer = _tried(client, lambda one, at=node, what=request: one.request(what, node=at), errors)  # type: ignore[misc]
        for folder in () if answer is None else answer.results:
            for topic in folder.topics:
                for each in topic.partitions:
                    partition = TopicPartition(topic.name, each.partition_index)
                    if partition in partitions:
                        found[partition, int(node)] = each.partition_size
    return found


def _throttles(client: BlockingClient, errors: list[str]) -> list[dict[str, object]]:
    found: list[dict[str, object]] = []
    for node in sorted(client.metadata(()).nodes):
        entity = ConfigEntity("brokers", str(int(node)))
        known = _tried(client, lambda one, what=entity: describe_config(one, what), errors)  # type: ignore[misc]
        found += [
            {"broker": int(node), "name": each.name, "value": each.value}
            for each in known or ()
            if each.name.endswith("replication.throttled.rate") and each.is_set_for(entity)
        ]
    return found


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
