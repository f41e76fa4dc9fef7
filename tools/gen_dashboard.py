"""Write the Grafana dashboard `src/ottla/cli/monitoring/grafana.json` from the table of its panels."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "src" / "ottla" / "cli" / "monitoring" / "grafana.json"
DATASOURCE = {"type": "prometheus", "uid": "${datasource}"}
NODE = 'instance=~"$instance"'
TOPIC = f'{NODE},topic=~"$topic"'
GROUP = f'{NODE},consumergroup=~"$consumergroup",topic=~"$topic"'
BROKER, REQUEST = "kafka_server_brokertopicmetrics_", "kafka_network_requestmetrics_"
REPLICAS, CONTROLLER = "kafka_server_replicamanager_", "kafka_controller_kafkacontroller_"
COLUMNS = 24


@dataclass(frozen=True)
class Panel:
    """One panel: what it asks, as (query, legend), its unit, and how it looks."""

    title: str
    queries: tuple[tuple[str, str], ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    bad_from: float | None = None


def stat(title: str, query: str, *, bad_from: float | None = None, unit: str = "short") -> Panel:
    """Return one number, red from `bad_from` on."""
    return Panel(title, ((query, ""),), unit, "stat", 4, bad_from)


def rate(name: str, labels: str, by: str) -> str:
    """Return a sum of rates."""
    return f"sum by ({by}) (rate({name}{{{labels}}}[$__rate_interval]))"


ROWS: tuple[tuple[str, tuple[Panel, ...]], ...] = (
    (
        "Health",
        (
            stat("Active controllers", f"sum({CONTROLLER}activecontrollercount{{{NODE}}})"),
            stat("Brokers", f"max(kafka_brokers{{{NODE}}})"),
            stat("Fenced brokers", f"max({CONTROLLER}fencedbrokercount{{{NODE}}})", bad_from=1),
            stat("Partitions without a leader", f"max({CONTROLLER}offlinepartitionscount{{{NODE}}})", bad_from=1),
            stat("Under-replicated", f"sum({REPLICAS}underreplicatedpartitions{{{NODE}}})", bad_from=1),
            stat("Failed log folders", f"sum(kafka_log_logmanager_offlinelogdirectorycount{{{NODE}}})", bad_from=1),
        ),
    ),
    (
        "Cluster",
        (
            Panel(
                "Partitions with a copy that is behind",
                ((f"{REPLICAS}underreplicatedpartitions{{{NODE}}}", "led by {{instance}}"),),
            ),
            Panel("Partitions led", ((f"{REPLICAS}leadercount{{{NODE}}}", "{{instance}}"),)),
            Panel(
                "Metadata records behind",
                (
                    (
                        "scalar(max(kafka_server_raft_metrics_high_watermark)) - 1 - "
                        f"kafka_server_broker_metadata_metrics_last_applied_record_offset{{{NODE}}}",
                        "{{instance}}",
                    ),
                ),
            ),
            Panel(
                "Epoch of the metadata quorum", ((f"max(kafka_server_raft_metrics_current_epoch{{{NODE}}})", "epoch"),)
            ),
            Panel(
                "Below min.insync.replicas",
                ((f"{REPLICAS}underminisrpartitioncount{{{NODE}}}", "led by {{instance}}"),),
            ),
            Panel(
                "Partitions being moved", ((f"max({CONTROLLER}reassigningpartitionscount{{{NODE}}})", "partitions"),)
            ),
        ),
    ),
    (
        "Traffic",
        (
            Panel(
                "Bytes in", ((rate(f"{BROKER}bytesinpersec", f'{NODE},topic=""', "instance"), "{{instance}}"),), "Bps"
            ),
            Panel(
                "Bytes out", ((rate(f"{BROKER}bytesoutpersec", f'{NODE},topic=""', "instance"), "{{instance}}"),), "Bps"
            ),
            Panel("Records in", ((rate(f"{BROKER}messagesinpersec", f'{NODE},topic=""', "instance"), "{{instance}}"),)),
            Panel(
                "Bytes in by topic",
                ((f"topk(10, {rate(f'{BROKER}bytesinpersec', TOPIC, 'topic')})", "{{topic}}"),),
                "Bps",
            ),
            Panel(
                "Bytes out by topic",
                ((f"topk(10, {rate(f'{BROKER}bytesoutpersec', TOPIC, 'topic')})", "{{topic}}"),),
                "Bps",
            ),
            Panel(
                "Refused and failed",
                (
                    (
                        rate(f"{BROKER}failedproducerequestspersec", f'{NODE},topic=""', "instance"),
                        "produce {{instance}}",
                    ),
                    (rate(f"{BROKER}failedfetchrequestspersec", f'{NODE},topic=""', "instance"), "fetch {{instance}}"),
                ),
            ),
        ),
    ),
    (
        "Requests",
        (
            Panel("Requests", ((rate(f"{REQUEST}requestspersec", NODE, "request"), "{{request}}"),), "reqps"),
            Panel(
                "99th percentile",
                ((f'max by (request) ({REQUEST}totaltimems{{{NODE},quantile="0.99"}})', "{{request}}"),),
                "ms",
            ),
            Panel(
                "Errors", ((rate(f"{REQUEST}errorspersec", NODE, "request, error"), "{{request}} {{error}}"),), "reqps"
            ),
            Panel(
                "Produce, distribution",
                tuple(
                    (
                        f"histogram_quantile({share}, "
                        + rate("ottla_request_duration_seconds_bucket", f'{NODE},request="Produce"', "le")
                        + ")",
                        f"{share}",
                    )
                    for share in (0.5, 0.95, 0.99)
                ),
                "s",
            ),
            Panel(
                "Idle share of the event loop",
                ((f"kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent{{{NODE}}}", "{{instance}}"),),
                "percentunit",
            ),
            Panel(
                "Made to wait by quotas", ((rate("ottla_quota_throttled_total", NODE, "quota"), "{{quota}}"),), "reqps"
            ),
        ),
    ),
    (
        "Consumer groups",
        (
            Panel(
                "Lag",
                (
                    (
                        f"topk(10, sum by (consumergroup, topic) (kafka_consumergroup_lag{{{GROUP}}}))",
                        "{{consumergroup}} {{topic}}",
                    ),
                ),
                width=12,
            ),
            Panel(
                "Records committed",
                (
                    (
                        rate("kafka_consumergroup_current_offset", GROUP, "consumergroup, topic"),
                        "{{consumergroup}} {{topic}}",
                    ),
                ),
                width=12,
            ),
            Panel(
                "Members",
                ((f'kafka_consumergroup_members{{{NODE},consumergroup=~"$consumergroup"}}', "{{consumergroup}}"),),
                width=12,
            ),
            Panel(
                "Groups by state",
                tuple(
                    (f"sum(kafka_coordinator_group_groupmetadatamanager_numgroups{state}{{{NODE}}})", state)
                    for state in ("stable", "preparingrebalance", "completingrebalance", "empty")
                ),
                width=12,
            ),
        ),
    ),
    (
        "Storage, network, process",
        (
            Panel(
                "Log size by topic",
                ((f"topk(10, sum by (topic) (kafka_log_log_size{{{TOPIC}}}))", "{{topic}}"),),
                "bytes",
            ),
            Panel("Free on disk", ((f"ottla_storage_disk_free_bytes{{{NODE}}}", "{{instance}} {{log_dir}}"),), "bytes"),
            Panel("Partitions held", ((f"{REPLICAS}partitioncount{{{NODE}}}", "{{instance}}"),)),
            Panel(
                "Connections",
                ((f"kafka_server_socket_server_metrics_connection_count{{{NODE}}}", "{{instance}} {{listener}}"),),
            ),
            Panel("Processor", ((rate("process_cpu_seconds_total", NODE, "instance"), "{{instance}}"),), "percentunit"),
            Panel("Memory", ((f"process_resident_memory_bytes{{{NODE}}}", "{{instance}}"),), "bytes"),
        ),
    ),
)


def panel_json(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    """Return one panel as Grafana keeps it."""
    steps: list[dict[str, Any]] = [{"color": "green", "value": None}]
    if panel.bad_from is not None:
        steps.append({"color": "red", "value": panel.bad_from})
    targets = [
        {"datasource": DATASOURCE, "expr": query, "legendFormat": legend or "__auto", "refId": chr(ord("A") + at)}
        for at, (query, legend) in enumerate(panel.queries)
    ]
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "datasource": DATASOURCE,
        "gridPos": {"h": 4 if panel.kind == "stat" else 8, "w": panel.width, "x": x, "y": y},
        "fieldConfig": {
            "defaults": {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}},
            "overrides": [],
        },
        "targets": targets,
    }


def panels() -> list[dict[str, Any]]:
    """Return all rows and panels, laid out from left to right and top to bottom."""
    found: list[dict[str, Any]] = []
    y = 0
    for title, row in ROWS:
        found.append(
            {
                "id": len(found) + 1,
                "type": "row",
                "title": title,
                "collapsed": False,
                "panels": [],
                "gridPos": {"h": 1, "w": COLUMNS, "x": 0, "y": y},
            }
        )
        y, x = y + 1, 0
        for panel in row:
            if x + panel.width > COLUMNS:
                x, y = 0, y + 8
            found.append(panel_json(panel, len(found) + 1, x, y))
            x += panel.width
        y += 4 if row[-1].kind == "stat" else 8
    return found


def variable(name: str, query: str) -> dict[str, Any]:
    """Return a choice of label values, all of them at first."""
    return {
        "name": name,
        "type": "query",
        "datasource": DATASOURCE,
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "multi": True,
        "includeAll": True,
        "allValue": ".*",
        "current": {"text": "All", "value": "$__all"},
        "sort": 1,
    }


def dashboard() -> dict[str, Any]:
    """Return the whole dashboard."""
    return {
        "uid": "ottla",
        "title": "Ottla",
        "tags": ["ottla", "kafka"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "time": {"from": "now-1h", "to": "now"},
        "refresh": "30s",
        "templating": {
            "list": [
                {"name": "datasource", "type": "datasource", "query": "prometheus", "current": {}},
                variable("instance", "label_values(kafka_server_kafkaserver_brokerstate, instance)"),
                variable("topic", "label_values(kafka_topic_partitions, topic)"),
                variable("consumergroup", "label_values(kafka_consumergroup_members, consumergroup)"),
            ]
        },
        "panels": panels(),
    }


def main(argv: list[str]) -> int:
    """Write the file; with `--check` only say whether it is current."""
    text = json.dumps(dashboard(), indent=1) + "\n"
    if "--check" not in argv:
        TARGET.parent.mkdir(exist_ok=True)
        TARGET.write_text(text)
        return 0
    if not TARGET.exists() or TARGET.read_text() != text:
        print(f"{TARGET.relative_to(ROOT)} is stale")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
