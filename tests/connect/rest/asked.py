"""Asks a worker all calls in turn, and says what it answered in words that do not change from run to run."""

from __future__ import annotations

import http.client
import json
import re
import time
from collections.abc import Iterator
from typing import Any

from tests.connect.rest.calls import Call

__all__ = ["ask_all", "ask_once", "written"]

WAIT_S = 40.0
_VOLATILE = {"kafka_cluster_id": "CLUSTER", "commit": "COMMIT", "worker_id": "WORKER"}


def found_at(body: Any, path: str) -> Any:
    """Return what stands at a dotted path; `*` collects from a list."""
    parts = [part.replace("\0", ".") for part in path.replace("\\.", "\0").split(".")] if path else []
    for index, part in enumerate(parts):
        if part == "*":
            rest = ".".join(parts[index + 1 :])
            return [found_at(each, rest) for each in body] if isinstance(body, list) else None
        body = body.get(part) if isinstance(body, dict) else None
    return body


def ask_once(port: int, call: Call) -> dict[str, Any]:
    """Return status, body and location of one answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    sent = call.text if call.body is None else json.dumps(call.body)
    headers = {} if sent is None or call.content_type is None else {"Content-Type": call.content_type}
    try:
        connection.request(call.method, call.path, body=sent, headers=headers)
        answer = connection.getresponse()
        data = answer.read()
        location = answer.headers.get("Location")
    finally:
        connection.close()
    try:
        body = json.loads(data) if data else None
    except ValueError:
        body = {"text": data.decode()}
    found = {"status": answer.status, "body": settled(body)}
    if location is not None:
        found["location"] = re.sub(r"^http://[^/]+", "", location)
    return found


def settled(body: Any) -> Any:
    """Return a body without what differs between two runs."""
    if isinstance(body, dict):
        return {key: _VOLATILE.get(key, settled(value)) for key, value in body.items()}
    return [settled(each) for each in body] if isinstance(body, list) else body


def ask_all(port: int, calls: list[Call]) -> Iterator[tuple[Call, dict[str, Any]]]:
    """Ask every call, polling where it says `until`."""
    for call in calls:
        deadline = time.monotonic() + WAIT_S
        while True:
            answer = ask_once(port, call)
            wanted = call.until or {}
            fits = all(found_at(answer["body"], path) == value for path, value in wanted.items())
            busy = answer["status"] == 409 and "rebalance" in str(answer["body"])
            if (fits and not busy) or time.monotonic() > deadline:
                break
            time.sleep(0.1)
        yield call, answer


def written(call: Call) -> list[Any]:
    """Return a call as it stands in the facts."""
    return [call.method, call.path, call.text if call.body is None else call.body]
