"""Write `docs/metrics.md`: how metrics are had, and the table of `ottla.broker.monitoring.families`."""

from __future__ import annotations

import sys
from pathlib import Path

from generated_page import write_or_check

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "metrics.md"

HEAD = """# Metrics and health

Written from the table in `src/ottla/broker/monitoring/families.py` by `tools/gen_metrics_docs.py`.

A broker serves HTTP where `ottla.http.listeners` says, and nowhere without it:

```
ottla server start --override ottla.http.listeners=http://127.0.0.1:9404
ottla generate prometheus-config --target 127.0.0.1:9404    # a job for prometheus.yml
ottla generate prometheus-rules > ottla-rules.yml           # alerts
ottla generate grafana > ottla-dashboard.json               # a dashboard, to be imported
```

In a container: `KAFKA_OTTLA_HTTP_LISTENERS=http://:9404`. With `https://` the pages are encrypted, \
by the keys of `listener.name.https.ssl.…` over `ssl.…` ([security.md](security.md#tls)), and \
`listener.name.https.ssl.client.auth=required` lets in only who shows a certificate. With \
`ottla.http.logins.file`, a file of lines like `name=password`, `/metrics` and `/healthz` ask for one of these logins \
(Prometheus' `basic_auth`); `/livez` and `/readyz` never do, and name no topic. Without either nobody is asked who he is, \
and metrics name every topic: bind them to an address that only your monitoring reaches. Without a login or TLS \
a scraper asks by an address, the machine's name, or a name of `advertised.listeners`; `ottla.http.hosts` adds others \
(`*.svc.cluster.local`), and the answer is 421 else. The server says at its start \
who may come in. At most 200 connections are open, or a quarter of the process's descriptors.

| path | answers |
|---|---|
| `/metrics` | everything below, in Prometheus' text format; a page of many partitions is written in slices of 2 ms |
| `/livez` | 200 while the event loop answers and the node has not failed for good: for what restarts processes |
| `/readyz` | 200 when clients can be served: registered, not fenced, a log directory online, coordinators loaded |
| `/healthz` | 200 when nothing needs a person: also no failed log directory, no partition without leader or behind |

The health pages are JSON: `status`, and `checks` with `name`, `ok` and `reason`. Where a check fails the status is 503.

## Names

The names are those that dashboards and alerts for Apache Kafka use: Kafka's MBeans as the JMX exporter writes them in lower
case, each meter also under a second name with `_total`, and consumer lag as the usual Kafka exporter names it, so that no
exporter is needed beside the broker. What neither of them has begins with `ottla_`.

What to know when you read them:

- Traffic has one series for all topics, without a `topic` label, and one per topic; ask for `topic=""` or `topic!=""`.
- Quantiles are of the last one to two minutes, if somebody asks at least once a minute, and are off by less than a fifth.
  `ottla_request_duration_seconds` is a histogram with the same times, for quantiles over any time and over nodes.
- There are no response queues: one thread reads, works and answers. A request's local time ends where it is answered or
  begins to wait, its remote time is the rest; what a coroutine works on after its first wait counts as remote.
- `errorspersec` leaves NONE out.
- Lag is shown by the coordinator of a group, for partitions that this node leads; it counts offsets up to the high
  watermark, so transaction markers and compacted records count too.
- Values of this node and of the cluster stand side by side: `kafka_controller_…` and `kafka_topic_partition_…` of the
  cluster are the same on every node. Take their maximum, not their sum.

## The metrics

| name | kind | labels | what it says |
|---|---|---|---|
"""


def render() -> str:
    """Return the page."""
    from ottla.broker.monitoring.families import FAMILIES, METER_ALIASES

    aliases = set(METER_ALIASES.values())
    rows = []
    for name, family in sorted(FAMILIES.items()):
        if name in aliases:
            continue
        names = f"`{name}`" + (f", `{METER_ALIASES[name]}`" if name in METER_ALIASES else "")
        labels = ", ".join(f"`{label}`" for label in family.labels)
        rows.append(f"| {names} | {family.kind} | {labels} | {family.text} |\n")
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, render(), sys.argv[1:]))
