"""The calls that both Apache Kafka Connect and Ottla are asked, in one order, each on the state that those before made.

`FOLDER` stands for a folder that the workers may read. `until` is polled for: the state is not there at once.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["CALLS", "FOLDER", "Call"]

FOLDER = "/nowhere/that/exists"
FILE = f"{FOLDER}/in.txt"
SOURCE = "org.apache.kafka.connect.file.FileStreamSourceConnector"
SINK = "org.apache.kafka.connect.file.FileStreamSinkConnector"


@dataclass(frozen=True)
class Call:
    """One call; `until` is what the answer's body has to hold before it counts."""

    method: str
    path: str
    body: Any = None
    until: dict[str, Any] | None = None
    text: str | None = None
    """The body as it is sent, for what is no JSON."""

    content_type: str | None = "application/json"


def source(**more: str | None) -> dict[str, str | None]:
    return {"connector.class": SOURCE, "tasks.max": "1", "topic": "lines", "file": FILE, **more}


def running(tasks: int = 1) -> dict[str, Any]:
    return {"connector.state": "RUNNING", "tasks.*.state": ["RUNNING"] * tasks}


_NOBODY = [
    Call("GET", "/connectors/nobody"),
    Call("GET", "/connectors/nobody/config"),
    Call("GET", "/connectors/nobody/status"),
    Call("GET", "/connectors/nobody/tasks"),
    Call("GET", "/connectors/nobody/tasks/0/status"),
    Call("POST", "/connectors/nobody/tasks/0/restart"),
    Call("POST", "/connectors/nobody/restart"),
    Call("POST", "/connectors/nobody/restart?includeTasks=true"),
    Call("PUT", "/connectors/nobody/pause"),
    Call("PUT", "/connectors/nobody/resume"),
    Call("PUT", "/connectors/nobody/stop"),
    Call("DELETE", "/connectors/nobody"),
    Call("GET", "/connectors/nobody/topics"),
    Call("PUT", "/connectors/nobody/topics/reset"),
    Call("GET", "/connectors/nobody/offsets"),
    Call("PATCH", "/connectors/nobody/offsets", {"offsets": [{"partition": {"a": 1}, "offset": {"b": 2}}]}),
    Call("DELETE", "/connectors/nobody/offsets"),
    Call("PATCH", "/connectors/nobody/config", {"a": "b"}),
]

_REFUSED = [
    Call("POST", "/connectors", {"name": "a", "config": {"name": "b", "connector.class": SOURCE}}),
    Call("POST", "/connectors", {"name": "a", "config": {}}),
    Call("POST", "/connectors", {"name": "a", "config": {"connector.class": "nobody.knows.It"}}),
    Call("POST", "/connectors", {"name": "a", "config": {"connector.class": SOURCE}}),
    Call("POST", "/connectors", {"name": "a", "config": source(**{"tasks.max": "none"})}),
    Call("POST", "/connectors", {"name": "a\tb", "config": source()}),
    Call("POST", "/connectors", {"config": source()}),
    Call("PUT", "/connectors/a/config", source(name="b")),
    Call("PUT", "/connectors/a/config", source(**{"errors.tolerance": "some"})),
    Call("POST", "/connectors", {"name": "a", "config": source(), "initial_state": "DANCING"}),
    Call("POST", "/connectors", text="{"),
    Call("POST", "/connectors", text="[]"),
    Call("POST", "/connectors", text="{}", content_type="text/plain"),
    Call("POST", "/connectors", {"name": "a", "config": source(), "more": 1}),
    Call("GET", "/nothing"),
    Call("POST", "/connectors/a/status"),
    Call("DELETE", "/connectors"),
    Call("PUT", "/connectors/a/fence"),
    Call("GET", "/connectors/a/tasks/none/status"),
    Call("GET", "/connectors/a/tasks-config"),
]

_PLUGINS = [
    Call("GET", "/connector-plugins?connectorsOnly=false"),
    Call("GET", "/connector-plugins/FileStreamSource/config"),
    Call("GET", "/connector-plugins/org.apache.kafka.connect.transforms.Filter/config"),
    Call("GET", "/connector-plugins/org.apache.kafka.connect.json.JsonConverter/config"),
    Call("GET", "/connector-plugins/nobody/config"),
    Call("PUT", "/connector-plugins/FileStreamSource/config/validate", source(name="x")),
    Call("PUT", f"/connector-plugins/{SOURCE}/config/validate", {"connector.class": SOURCE, "batch.size": "x"}),
    Call("PUT", "/connector-plugins/FileStreamSinkConnector/config/validate", {"connector.class": SINK, "name": ""}),
    Call("PUT", "/connector-plugins/FileStreamSink/config/validate", source()),
    Call("PUT", "/connector-plugins/FileStreamSink/config/validate", {"topics": "t"}),
]

_SOURCE = [
    Call("POST", "/connectors", {"name": "lines", "config": source()}),
    Call("GET", "/connectors/lines/status", until=running()),
    Call("POST", "/connectors", {"name": "lines", "config": source()}),
    Call("GET", "/connectors"),
    Call("GET", "/connectors?expand=status&expand=info&expand=other"),
    Call("GET", "/connectors/lines", until={"tasks.*.task": [0]}),
    Call("GET", "/connectors/lines/config"),
    Call("GET", "/connectors/lines/tasks"),
    Call("GET", "/connectors/lines/tasks/0/status"),
    Call("GET", "/connectors/lines/tasks/7/status"),
    Call("GET", "/connectors/lines/topics"),
    Call("PUT", "/connectors/lines/topics/reset"),
    Call("GET", "/connectors/lines/offsets"),
    Call(
        "PATCH",
        "/connectors/lines/offsets",
        {"offsets": [{"partition": {"filename": FILE}, "offset": {"position": 5}}]},
    ),
    Call("DELETE", "/connectors/lines/offsets"),
    Call("PUT", "/connectors/lines/config", source(**{"batch.size": "100"})),
    Call("PATCH", "/connectors/lines/config", {"batch.size": None, "errors.log.enable": "true"}),
    Call("PATCH", "/connectors/lines/config", {"batch.size": "many"}),
    Call("GET", "/connectors/lines/config", until={"errors\\.log\\.enable": "true"}),
    Call("GET", "/connectors/lines/status", until=running()),
    Call("POST", "/connectors/lines/restart"),
    Call("GET", "/connectors/lines/status", until=running()),
    Call("POST", "/connectors/lines/restart?includeTasks=true"),
    Call("GET", "/connectors/lines/status", until=running()),
    Call("POST", "/connectors/lines/restart?onlyFailed=true&includeTasks=true"),
    Call("POST", "/connectors/lines/tasks/0/restart"),
    Call("GET", "/connectors/lines/status", until=running()),
    Call("PUT", "/connectors/lines/pause"),
    Call("GET", "/connectors/lines/status", until={"connector.state": "PAUSED", "tasks.*.state": ["PAUSED"]}),
    Call("PUT", "/connectors/lines/pause"),
    Call("PUT", "/connectors/lines/resume"),
    Call("GET", "/connectors/lines/status", until=running()),
    Call("PUT", "/connectors/lines/stop"),
    Call("GET", "/connectors/lines/status", until={"connector.state": "STOPPED", "tasks.*.state": []}),
    Call("GET", "/connectors/lines"),
    Call("GET", "/connectors/lines/tasks"),
    Call("POST", "/connectors/lines/tasks/0/restart"),
    Call("PATCH", "/connectors/lines/offsets", {"offsets": []}),
    Call("PATCH", "/connectors/lines/offsets", {}),
    Call(
        "PATCH",
        "/connectors/lines/offsets",
        {"offsets": [{"partition": {"filename": FILE}, "offset": {"position": 5}}]},
    ),
    Call("GET", "/connectors/lines/offsets"),
    Call(
        "PATCH", "/connectors/lines/offsets", {"offsets": [{"partition": {"filename": [1]}, "offset": {"position": 5}}]}
    ),
    Call(
        "PATCH",
        "/connectors/lines/offsets",
        {"offsets": [{"partition": {"filename": FILE}, "offset": {"position": "x"}}]},
    ),
    Call("PATCH", "/connectors/lines/offsets", {"offsets": [{"partition": {"filename": FILE}, "offset": None}]}),
    Call("GET", "/connectors/lines/offsets"),
    Call("DELETE", "/connectors/lines/offsets"),
    Call("PUT", "/connectors/lines/stop"),
    Call("DELETE", "/connectors/lines"),
    Call("GET", "/connectors/lines"),
    Call("GET", "/connectors", until={"": []}),
]

_SINK = [
    Call(
        "POST",
        "/connectors",
        {
            "name": "out",
            "config": {"connector.class": SINK, "topics": "lines", "file": "/dev/null", "tasks.max": "2"},
            "initial_state": "STOPPED",
        },
    ),
    Call("GET", "/connectors/out/status", until={"connector.state": "STOPPED", "tasks.*.state": []}),
    Call("GET", "/connectors/out/offsets"),
    Call("PATCH", "/connectors/out/offsets", {"offsets": [{"partition": {"kafka_topic": "lines"}, "offset": None}]}),
    Call(
        "PATCH",
        "/connectors/out/offsets",
        {"offsets": [{"partition": {"kafka_topic": "lines", "kafka_partition": 0}, "offset": {"kafka_offset": 3}}]},
    ),
    Call("GET", "/connectors/out/offsets"),
    Call("DELETE", "/connectors/out/offsets"),
    Call("GET", "/connectors/out/offsets"),
    Call("PUT", "/connectors/out/resume"),
    Call("GET", "/connectors/out/status", until=running(2)),
    Call("GET", "/connectors/out/tasks"),
    Call("DELETE", "/connectors/out"),
    Call("PUT", "/connectors/paused/config", source(name="paused")),
    Call("GET", "/connectors/paused/status", until=running()),
    Call("DELETE", "/connectors/paused"),
]

_REST = [
    Call("GET", "/"),
    Call("GET", "/health", until={"status": "healthy"}),
    Call("GET", "/connectors"),
    Call("PUT", "/admin/loggers/root", {}),
    Call("PUT", "/admin/loggers/root", {"level": "LOUD"}),
    Call("GET", "/admin/loggers/nobody.has.this"),
    Call("PUT", "/admin/loggers/a.logger.of.ours?scope=cluster", {"level": "debug"}),
    Call("PUT", "/admin/loggers/a.logger.of.ours", {"level": "INFO"}),
]

CALLS = [*_REST, *_NOBODY, *_REFUSED, *_PLUGINS, *_SOURCE, *_SINK]
