"""Kafka Streams' metrics of applications in continuous mode: of threads, tasks, nodes and stores, under Kafka's names.

A host is a thread and a work is a task. Names are those that Kafka's JMX exporter makes: the type of the MBean and the
attribute, `kafka_streams_stream_thread_metrics_commit_rate`. Rates, averages and maxima are of a window of 30 s, which is
Kafka's `metrics.sample.window.ms`; hosts report once a second. What Kafka records at level DEBUG alone is left out.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ottla.streams import StreamsWork

__all__ = ["Metric", "ShownWork", "Windows", "prometheus_lines", "streams_metrics"]

WINDOW_SECONDS = 30.0
MS = 1000.0
_STATES = ("CREATED", "REBALANCING", "RUNNING", "PENDING_SHUTDOWN", "NOT_RUNNING", "PENDING_ERROR", "ERROR")


class _Sample(NamedTuple):
    at_s: float
    occasions: int
    total: float
    most: float


@dataclass(slots=True)
class _Series:
    """One meter's reports, those of the window and the last before it."""

    samples: deque[_Sample] = field(default_factory=deque)

    def note(self, sample: _Sample) -> None:
        if not self.samples or sample.occasions != self.samples[-1].occasions or sample.total != self.samples[-1].total:
            self.samples.append(sample)
        while len(self.samples) > 1 and self.samples[1].at_s <= sample.at_s - WINDOW_SECONDS:
            self.samples.popleft()

    def window(self, now_s: float) -> Window:
        """Return what the window says."""
        if not self.samples:
            return Window()
        since_s = now_s - WINDOW_SECONDS
        before = self.samples[0]
        for each in self.samples:
            if each.at_s <= since_s:
                before = each
        last = self.samples[-1]
        seconds = min(WINDOW_SECONDS, max(now_s - before.at_s, 1.0))
        is_new = before.at_s > since_s  # the first report is of a thread's first second, and counts
        count = last.occasions if is_new else last.occasions - before.occasions
        total = last.total if is_new else last.total - before.total
        most = max((each.most for each in self.samples if each.at_s > since_s), default=0.0)
        return Window(last.occasions, last.total, count, total, most, seconds)


class Window(NamedTuple):
    """A meter over the window, and its totals."""

    occasions_total: int = 0
    total: float = 0.0
    occasions: int = 0
    amount: float = 0.0
    most: float = 0.0
    seconds: float = WINDOW_SECONDS

    @property
    def rate(self) -> float:
        """Occasions a second."""
        return self.occasions / self.seconds

    @property
    def average(self) -> float:
        """What an occasion amounted to; 0 where there was none."""
        return self.amount / self.occasions if self.occasions else 0.0

    @property
    def ratio(self) -> float:
        """Which part of the time it took, for amounts that are seconds."""
        return min(1.0, self.amount / self.seconds)


class Windows:
    """What hosts have reported lately; `note` on the service's loop, the others for any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._series: dict[int, dict[Hashable, _Series]] = {}
        self._pids: dict[int, Any] = {}
        self._began_s: dict[int, float] = {}
        self._lanes: dict[int, Sequence[Mapping[str, Any]]] = {}

    def note(self, host: int, pid: int | None, message: Mapping[str, Any], now_s: float) -> None:
        """Take in a host's report."""
        with self._lock:
            if self._pids.get(host) != pid:
                self._pids[host], self._began_s[host], self._series[host] = pid, now_s, {}
            series, seen = self._series.setdefault(host, {}), set[Hashable]()
            self._lanes[host] = message["lanes"]
            for key, reported in _meters(message):
                if reported is not None:
                    series.setdefault(key, _Series()).note(_Sample(now_s, *reported))
                seen.add(key)
            for key in series.keys() - seen:
                if key[0] != "node" or key[1] not in seen:  # type: ignore[index]  # details are told when they change
                    del series[key]

    def lanes_of(self, application: str) -> list[tuple[int, int, Mapping[str, Any]]]:
        """Return the lanes that have works of an application: their hosts, their numbers there, and their reports."""
        with self._lock:
            return [
                (host, number, lane)
                for host, lanes in sorted(self._lanes.items())
                for number, lane in enumerate(lanes)
                if application in lane["applications"]
            ]

    def window(self, host: int, key: Hashable, now_s: float) -> Window:
        """Return a meter over the window."""
        with self._lock:
            found = self._series.get(host, {}).get(key)
            return Window() if found is None else found.window(now_s)

    def began_s(self, host: int) -> float:
        """Return when a host's life was heard of first, by the clock that `note` was given."""
        return self._began_s.get(host, 0.0)


def _meters(message: Mapping[str, Any]) -> Iterator[tuple[Hashable, Sequence[Any] | None]]:
    """Yield what a report says, by key; None for a work whose details are as before."""
    for number, lane in enumerate(message["lanes"]):
        meters = lane["meters"]
        for name, reported in meters.items():
            yield ("lane", number, name), reported if isinstance(reported, list) else (reported, 0.0, 0.0)
    for each in message["works"]:
        work, counts = StreamsWork(*each["work"]), each["counts"]
        dropped = counts["late"] + counts["null_keys"] + counts["poison"]
        yield ("dropped", work), (dropped, 0.0, 0.0)
        yield ("restored", work), (counts["restored"], 0.0, 0.0)
        yield ("active", work), (counts["processed"], counts["process_s"], 0.0)
        yield work, None
        for node, topic, _, _, age, _ in (each["details"] or {}).get("produced", ()):
            yield ("node", work, node, topic), age


@dataclass(frozen=True, slots=True)
class ShownWork:
    """A task, as its host has told it last."""

    work: StreamsWork
    host: int
    is_running: bool
    details: Mapping[str, Any]


class Metric(NamedTuple):
    """One line of a page: Kafka's type and attribute, labels, and a number."""

    type: str
    attribute: str
    labels: Mapping[str, str]
    value: float
    is_total: bool = False


def streams_metrics(
    application: str, client_id: str, state: str, windows: Windows, works: Iterable[ShownWork], *, now_s: float
) -> Iterator[Metric]:
    """Yield an application's metrics; `now_s` is of the clock that the windows were noted by."""
    lanes = windows.lanes_of(application)
    own = {"client_id": client_id, "application_id": application}
    yield Metric("stream-metrics", "alive-stream-threads", own, len({host for host, _, _ in lanes}))
    yield Metric("stream-metrics", "client-state", own, _STATES.index(state))
    for host, number, lane in lanes:
        yield from _thread_metrics({**own, "thread_id": _thread(client_id, host)}, host, number, lane, windows, now_s)
    for work in works:
        task = f"{work.work.sub_topology}_{work.work.partition}"
        labels = {**own, "thread_id": _thread(client_id, work.host), "task_id": task}
        yield from _task_metrics(labels, work, windows, now_s)


def _thread(client_id: str, host: int) -> str:
    return f"{client_id}-StreamThread-{host + 1}"


def _thread_metrics(
    labels: Mapping[str, str], host: int, number: int, lane: Mapping[str, Any], windows: Windows, now_s: float
) -> Iterator[Metric]:
    kind = "stream-thread-metrics"
    for name in ("commit", "poll", "process", "punctuate"):
        found = windows.window(host, ("lane", number, name), now_s)
        yield Metric(kind, f"{name}-latency-avg", labels, found.average * MS)
        yield Metric(kind, f"{name}-latency-max", labels, found.most * MS)
        yield Metric(kind, f"{name}-rate", labels, found.rate)
        yield Metric(kind, f"{name}-total", labels, found.occasions_total, is_total=True)
        yield Metric(kind, f"{name}-ratio", labels, found.ratio)
    for name in ("poll", "process"):
        found = windows.window(host, ("lane", number, f"{name}_records"), now_s)
        yield Metric(kind, f"{name}-records-avg", labels, found.average)
        yield Metric(kind, f"{name}-records-max", labels, found.most)
    for name in ("created", "closed"):
        found = windows.window(host, ("lane", number, name), now_s)
        yield Metric(kind, f"task-{name}-rate", labels, found.rate)
        yield Metric(kind, f"task-{name}-total", labels, found.occasions_total, is_total=True)
    updater = "stream-state-updater-metrics"
    yield Metric(updater, "active-restoring-tasks", labels, lane["restoring"])
    copies = [(work, read) for work, _, read in lane.get("standbys", ()) if work[0] == labels["application_id"]]
    yield Metric(updater, "standby-updating-tasks", labels, len(copies))
    for (_, sub_topology, partition), read in copies:
        own = {**labels, "task_id": f"{sub_topology}_{partition}"}
        yield Metric("stream-task-metrics", "update-total", own, read, is_total=True)


def _task_metrics(labels: Mapping[str, str], work: ShownWork, windows: Windows, now_s: float) -> Iterator[Metric]:
    kind, details = "stream-task-metrics", work.details
    dropped = windows.window(work.host, ("dropped", work.work), now_s)
    yield Metric(kind, "dropped-records-rate", labels, dropped.rate)
    yield Metric(kind, "dropped-records-total", labels, dropped.occasions_total, is_total=True)
    yield Metric(kind, "active-process-ratio", labels, windows.window(work.host, ("active", work.work), now_s).ratio)
    yield Metric(kind, "active-buffer-count", labels, details.get("buffered", 0))
    restored = windows.window(work.host, ("restored", work.work), now_s)
    yield Metric(kind, "restore-rate", labels, restored.rate)
    yield Metric(kind, "restore-total", labels, restored.occasions_total, is_total=True)
    for node, topic, records, size_bytes in _summed(details.get("consumed", ())):
        own = {**labels, "processor_node_id": node, "topic_name": topic}
        yield Metric("stream-topic-metrics", "records-consumed-total", own, records, is_total=True)
        yield Metric("stream-topic-metrics", "bytes-consumed-total", own, size_bytes, is_total=True)
    for node, topic, records, size_bytes, _, least in details.get("produced", ()):
        own = {**labels, "processor_node_id": node, "topic_name": topic}
        yield Metric("stream-topic-metrics", "records-produced-total", own, records, is_total=True)
        yield Metric("stream-topic-metrics", "bytes-produced-total", own, size_bytes, is_total=True)
        age = windows.window(work.host, ("node", work.work, node, topic), now_s)
        if age.occasions:
            of_node = {**labels, "processor_node_id": node}
            yield Metric("stream-processor-node-metrics", "record-e2e-latency-avg", of_node, age.average)
            yield Metric("stream-processor-node-metrics", "record-e2e-latency-max", of_node, age.most)
            if least is not None:
                yield Metric("stream-processor-node-metrics", "record-e2e-latency-min", of_node, least)
    for store, entries in details.get("stores", {}).items():
        own = {**labels, "in_memory_state_id": store}
        yield Metric("stream-state-metrics", "estimate-num-keys", own, entries)


def _summed(rows: Iterable[Sequence[Any]]) -> Iterator[tuple[str, str, int, int]]:
    """Yield rows of partitions as those of their topics."""
    found: dict[tuple[str, str], tuple[int, int]] = {}
    for node, topic, records, size_bytes in rows:
        before = found.get((node, topic), (0, 0))
        found[node, topic] = before[0] + records, before[1] + size_bytes
    for (node, topic), (records, size_bytes) in found.items():
        yield node, topic, records, size_bytes


def prometheus_lines(metrics: Iterable[Metric]) -> Iterator[str]:
    """Yield metrics as Prometheus reads them, those of one name together."""
    by_name: dict[str, list[Metric]] = {}
    for each in metrics:
        name = f"kafka_streams_{each.type}_{each.attribute}".replace("-", "_")
        by_name.setdefault(name, []).append(each)
    for name, found in sorted(by_name.items()):
        yield f"# TYPE {name} {'counter' if found[0].is_total else 'gauge'}"
        seen: set[str] = set()
        for each in found:
            labels = ",".join(f'{label}="{_escaped(text)}"' for label, text in each.labels.items())
            if labels not in seen:  # a node that writes to several topics has one latency line
                seen.add(labels)
                yield f"{name}{{{labels}}} {each.value:.12g}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
