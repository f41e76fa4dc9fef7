"""Questions for Connect's topics and files, made from a seed."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Iterator
from typing import Any

from ottla.connect import storage
from ottla.connect.storage import TargetState, TaskId

Json = Any
NAMES = ["a", "b-1", "c-2-x"]


def encoded(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def as_json(value: Json) -> str:
    return base64.b64encode(json.dumps(value).encode()).decode()


def config_folds(random: random.Random, count: int) -> Iterator[Json]:
    """Histories of the configuration topic, with gaps as compaction leaves them and records that say nothing."""
    for _ in range(count):
        records = []
        for _ in range(random.randrange(1, 25)):
            key, data = config_record(random)
            records.append([key, data])
        yield {"op": "config_fold", "records": records}


def config_record(random: random.Random) -> tuple[str, str | None]:
    name = random.choice(NAMES)
    if random.random() < 0.12:
        return random.choice(odd_records(name))
    task = TaskId(name, random.choice([0, 0, 1, 2]))
    settings = {"k": str(random.randrange(3)), "none": None}
    made = random.choice(
        [
            storage.ConnectorConfig(name, settings),
            storage.ConnectorConfig(name, settings),
            storage.ConnectorConfig(name, None if random.random() < 0.4 else {}),
            storage.TaskConfig(task, {"t": str(random.randrange(9))}),
            storage.TaskConfig(task, {"t": "x"}),
            storage.TasksCommit(name, random.randrange(1, 3)),
            storage.TasksCommit(name, random.randrange(0, 4)),
            storage.TargetStateChange(name, random.choice([*TargetState, None])),
            storage.TaskCount(name, random.randrange(4)),
            storage.SessionKey(b"secret", "HmacSHA256", 5),
            storage.RestartRequest(name, True, False),
            storage.LoggerLevel("org", "DEBUG"),
        ]
    )
    key, data = storage.encode_config(made)
    return key, encoded(data)


def odd_records(name: str) -> list[tuple[str, str | None]]:
    return [
        (f"target-state-{name}", as_json({"state": "PAUSED"})),
        (f"target-state-{name}", as_json({"state": "NOTHING"})),
        (f"target-state-{name}", as_json({"state": "STARTED", "state.v2": 5})),
        (f"connector-{name}", as_json({"properties": 1})),
        (f"connector-{name}", as_json([1])),
        (f"task-{name}-x", as_json({"properties": {}})),
        (f"task-{name}-0", as_json({})),
        ("session-key", as_json({"key": 1})),
        ("unknown", as_json({})),
        (f"connector-{name}", base64.b64encode(b"{not json").decode()),
    ]


def status_folds(random: random.Random, count: int) -> Iterator[Json]:
    """Histories of the status topic."""
    for _ in range(count):
        records = [list(status_record(random)) for _ in range(random.randrange(1, 20))]
        yield {"op": "status_fold", "records": records, "connectors": NAMES}


def status_record(random: random.Random) -> tuple[str, str | None]:
    name, kind = random.choice(NAMES), random.random()
    if kind < 0.15:
        use = storage.TopicUse(random.choice(["t", "u.v"]), name, random.randrange(3), 1_600_000_000_000)
        key, data = storage.encode_topic_use(use, removed=random.random() < 0.3)
        return key, encoded(data)
    if kind < 0.25:
        good = {"state": "RUNNING", "trace": None, "worker_id": "w:1", "generation": 1}
        odd = [{}, {**good, "state": "X"}, {**good, "generation": "1"}, {**good, "worker_id": 5}, [1], good]
        return random.choice([f"status-task-{name}-0", f"status-connector-{name}", "status-x"]), as_json(
            random.choice(odd)
        )
    of: str | TaskId = name if kind < 0.5 else TaskId(name, random.randrange(3))
    trace = random.choice([None, "Traceback é"])
    made = storage.Status(
        of, random.choice(list(storage.State)), "w:1", random.randrange(4), trace, random.choice([None, "1"])
    )
    key, data = storage.encode_status(made)
    return key, encoded(data)


def java_maps(random: random.Random, count: int) -> Iterator[Json]:
    """Maps of bytes as Java serialises them: written for Java to read, and by Java."""
    for number in range(count):
        size = random.choice([0, 1]) if number % 2 else random.randrange(40)
        entries = {
            random.randbytes(random.randrange(1, 30)): random.randbytes(random.randrange(30)) for _ in range(size)
        }
        if number % 2:
            yield {"op": "java_map_write", "entries": [[encoded(key), encoded(each)] for key, each in entries.items()]}
        else:
            yield {"op": "java_map_read", "data": encoded(storage.write_java_map({**entries, b"none": None}))}
