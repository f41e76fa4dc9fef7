"""The page of metrics and the health pages of a node that is used, and what dashboard and alerts ask of them."""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import subprocess
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml

from ottla.broker.meters import LATENCY_BUCKETS, Latency, bucket_limit_us
from ottla.broker.monitoring.families import FAMILIES, METER_ALIASES
from ottla.broker.monitoring.prometheus import Page, quantile_us, tags
from ottla.broker.monitoring.report import ITEMS_PER_LOOK
from ottla.wire.messages import alter_client_quotas as aq
from ottla.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from tests.broker.askers import AUTHORIZER
from tests.broker.node_client import NodeClient, batch, parts, running_node
from tests.waiting import until_async

MONITORING = Path(__file__).resolve().parents[2] / "src" / "ottla" / "cli" / "monitoring"
HTTP = "ottla.http.listeners=http://127.0.0.1:0"
OF_TLS = {"ottla_tls_certificate_end_seconds"}
"""What only a listener has that speaks TLS (`test_tls_listeners.py`)."""
SAMPLE = re.compile(r'^([a-zA-Z_:][\w:]*)(\{(?:[a-zA-Z_]\w*="(?:[^"\\]|\\.)*",?)*\})? (\S+)$')
NAME = re.compile(r"\b(?:kafka|ottla|process)_[a-z0-9_]+")
Samples = dict[str, float]


async def get(client: NodeClient, path: str) -> tuple[int, str]:
    url = f"{client.node.http_listeners[0]}{path}"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        return answer.status, await answer.text()


def parsed(text: str) -> Samples:
    """Return samples by name with labels; every line has to be one that Prometheus reads, and none comes twice."""
    found: Samples = {}
    for line in text.splitlines():
        if not line.startswith("#"):
            match = SAMPLE.match(line)
            assert match is not None, line
            key = match[1] + (match[2] or "")
            assert key not in found, key
            found[key] = float(match[3])
    return found


async def scrape(client: NodeClient) -> Samples:
    status, text = await get(client, "/metrics")
    assert status == 200
    return parsed(text)


async def commit(client: NodeClient, group: str, topic: str, offsets: dict[int, int]) -> None:
    partitions = [
        OffsetCommitRequestPartition(partition_index=at, committed_offset=each) for at, each in offsets.items()
    ]
    request = OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=-1,
        topics=[OffsetCommitRequestTopic(name=topic, partitions=partitions)],
    )
    while (code := (await client.ask(request, 8)).topics[0].partitions[0].error_code) in (14, 15, 16):
        pass  # the coordinator's topic is being made or loaded
    assert code == 0


@asynccontextmanager
async def used(folder: Path) -> AsyncIterator[NodeClient]:
    """Run a node that was asked for a bit of everything."""
    async with running_node(folder, HTTP, AUTHORIZER[0], "super.users=User:ANONYMOUS") as client:
        await client.create("t", 2)
        await client.create("__consumer_offsets", 1)
        for _ in range(5):
            await client.produce("t", batch(b"a", b"b"))
        await client.fetch("t", 0)
        await client.produce("t", batch(b"a"), index=9)
        await commit(client, "g", "t", {0: 4, 1: 0})
        quota = aq.RequestEntryData(
            entity=[aq.EntityData(entity_type="user", entity_name=None)],
            ops=[aq.OpData(key="producer_byte_rate", value=1e9)],
        )
        await client.ask(aq.AlterClientQuotasRequest(entries=[quota]))
        await client.produce("t", batch(b"a"), index=1)
        yield client


def run(test: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(asyncio.wait_for(test(), 100))


@cache
def page_of_a_used_node() -> str:
    import tempfile

    found = ""

    async def test() -> None:
        nonlocal found
        with tempfile.TemporaryDirectory() as folder:
            async with used(Path(folder)) as client:
                _, found = await get(client, "/metrics")

    run(test)
    return found


@pytest.fixture(scope="module")
def page() -> str:
    return page_of_a_used_node()


@pytest.fixture(scope="module")
def samples(page: str) -> Samples:
    return parsed(page)


def test_traffic_is_counted_in_all_and_by_topic_under_both_names(samples: Samples) -> None:
    broker = "kafka_server_brokertopicmetrics_"
    assert samples[f'{broker}messagesinpersec{{topic="t"}}'] == samples[f'{broker}messagesin_total{{topic="t"}}'] == 11
    assert (
        samples[f"{broker}messagesinpersec"] == 11 + samples[f'{broker}messagesinpersec{{topic="__consumer_offsets"}}']
    )
    assert samples[f'{broker}bytesinpersec{{topic="t"}}'] > samples[f'{broker}bytesoutpersec{{topic="t"}}'] > 0
    assert samples[f'{broker}totalproducerequestspersec{{topic="t"}}'] == 7
    assert samples[f'{broker}failedproducerequestspersec{{topic="t"}}'] == 1


def test_requests_have_times_and_errors(samples: Samples) -> None:
    metrics = "kafka_network_requestmetrics_"
    assert samples[f'{metrics}requestspersec{{request="Produce"}}'] == 7
    assert samples[f'{metrics}errorspersec{{request="Produce",error="UNKNOWN_TOPIC_OR_PARTITION"}}'] == 1
    for request, count in (("Produce", 7), ("Fetch", 1), ("FetchConsumer", 1), ("CreateTopics", 2)):
        assert samples[f'{metrics}totaltimems_count{{request="{request}"}}'] == count
        assert samples[f'{metrics}totaltimems{{request="{request}",quantile="0.99"}}'] > 0
        assert samples[f'ottla_request_duration_seconds_count{{request="{request}"}}'] == count
    total, local, remote = (
        samples[f'{metrics}{name}_sum{{request="CreateTopics"}}']
        for name in ("totaltimems", "localtimems", "remotetimems")
    )
    assert total == pytest.approx(local + remote, abs=0.01)


def test_buckets_of_a_histogram_only_grow(samples: Samples) -> None:
    found = {key: value for key, value in samples.items() if key.startswith("ottla_request_duration_seconds_bucket")}
    produce = [value for key, value in found.items() if 'request="Produce"' in key]
    assert len(produce) > 10
    assert all(one <= other for one, other in pairwise(produce))
    assert produce[-1] == 7


def test_lag_is_what_the_group_has_not_committed(samples: Samples) -> None:
    assert samples['kafka_consumergroup_current_offset{consumergroup="g",topic="t",partition="0"}'] == 4
    assert samples['kafka_consumergroup_lag{consumergroup="g",topic="t",partition="0"}'] == 6
    assert samples['kafka_consumergroup_lag{consumergroup="g",topic="t",partition="1"}'] == 1
    assert samples['kafka_consumergroup_lag_sum{consumergroup="g",topic="t"}'] == 7
    assert samples['kafka_consumergroup_members{consumergroup="g"}'] == 0
    assert samples["kafka_coordinator_group_groupmetadatamanager_numoffsets"] == 2


def test_the_cluster_and_its_partitions_are_described(samples: Samples) -> None:
    controller = "kafka_controller_kafkacontroller_"
    assert samples[f"{controller}activecontrollercount"] == 1
    assert samples[f"{controller}globalpartitioncount"] == samples["kafka_server_replicamanager_partitioncount"] == 3
    assert samples[f"{controller}offlinepartitionscount"] == 0
    assert samples['kafka_log_log_logendoffset{topic="t",partition="0"}'] == 10
    assert samples['kafka_topic_partition_current_offset{topic="t",partition="0"}'] == 10
    assert samples['kafka_log_log_size{topic="t",partition="0"}'] > 0
    assert samples['kafka_server_socket_server_metrics_connection_count{listener="PLAINTEXT"}'] == 1
    assert samples["kafka_server_socket_server_metrics_incoming_byte_total"] > 500
    assert samples["process_resident_memory_bytes"] > 1e7
    assert 0 <= samples["kafka_server_kafkarequesthandlerpool_requesthandleravgidlepercent"] <= 1


def test_what_is_used_of_a_quota_is_shown(samples: Samples) -> None:
    labels = 'quota="producer_byte_rate",user="ANONYMOUS",client_id=""'
    assert samples[f"ottla_quota_limit{{{labels}}}"] == 1e9
    assert samples[f"ottla_quota_rate{{{labels}}}"] > 0
    assert samples['ottla_quota_throttled_total{quota="producer_byte_rate"}'] == 0


def test_every_sample_belongs_to_a_family_that_is_described(page: str) -> None:
    shown = {line.split("{")[0].split()[0] for line in page.splitlines() if not line.startswith("#")}
    unknown = {name for name in shown if re.sub(r"_(sum|count|bucket)$", "", name) not in FAMILIES} - FAMILIES.keys()
    assert not unknown, f"add these to ottla.broker.monitoring.families: {sorted(unknown)}"


def test_every_family_has_samples_where_there_is_something_to_show(page: str) -> None:
    shown = {line.split("{")[0].split()[0] for line in page.splitlines() if not line.startswith("#")}
    silent = {name for name in FAMILIES if not any(each.startswith(name) for each in shown)}
    assert silent == {
        "kafka_network_requestmetrics_requestqueuetimems",
        "kafka_network_requestmetrics_throttletimems",
        "kafka_server_fetcherlagmetrics_consumerlag",  # of followed partitions; one broker follows none
        *OF_TLS,
    }


def asked_for() -> set[str]:
    """Return every metric that the dashboard and the alerts name."""
    rules = yaml.safe_load((MONITORING / "prometheus-rules.yml").read_text())
    queries = [rule["expr"] for group in rules["groups"] for rule in group["rules"]]
    dashboard = json.loads((MONITORING / "grafana.json").read_text())
    queries += [target["expr"] for panel in dashboard["panels"] for target in panel.get("targets", ())]
    queries += [each["definition"] for each in dashboard["templating"]["list"] if "definition" in each]
    return {name for query in queries for name in NAME.findall(query)}


def test_dashboard_and_alerts_name_only_what_a_scrape_has(page: str) -> None:
    there = {line.split("{")[0].split()[0] for line in page.splitlines() if not line.startswith("#")}
    asked = asked_for()
    assert len(asked) > 30
    assert not {name for name in asked if name not in there} - OF_TLS


def test_panels_do_not_lie_on_each_other() -> None:
    dashboard = json.loads((MONITORING / "grafana.json").read_text())
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        at = panel["gridPos"]
        cells = {(x, y) for x in range(at["x"], at["x"] + at["w"]) for y in range(at["y"], at["y"] + at["h"])}
        assert not cells & taken and at["x"] + at["w"] <= 24, panel["title"]
        taken |= cells


@pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (Debian: apt-get install prometheus)"
)
def test_promtool_accepts_the_rules_and_the_page(page: str) -> None:
    rules = subprocess.run(["promtool", "check", "rules", MONITORING / "prometheus-rules.yml"], check=False)
    assert rules.returncode == 0
    lint = subprocess.run(["promtool", "check", "metrics"], input=page, capture_output=True, text=True, check=False)
    assert "error while linting" not in lint.stderr, lint.stderr


def test_a_node_that_is_well_says_so_on_every_page(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, HTTP) as client:
            for path in ("/livez", "/readyz", "/healthz"):
                status, text = await get(client, path)
                assert (status, json.loads(text)["status"]) == (200, "ok"), text

    run(test)


def test_a_failed_folder_makes_a_node_unwell_and_leaves_it_ready(tmp_path: Path) -> None:
    async def test() -> None:
        folders = f"log.dirs={tmp_path / 'a'},{tmp_path / 'b'}"
        async with running_node(tmp_path, HTTP, folders) as client:
            await client.create("t", 4)
            storage = parts(client.node).storage
            from ottla.base import StorageError

            lost = storage.online[1]
            parts(client.node).partitions.dir_failed(lost, StorageError("the disk is gone"))
            assert (await get(client, "/readyz"))[0] == 200
            status, text = await get(client, "/healthz")
            reasons = {each["name"]: each["reason"] for each in json.loads(text)["checks"] if not each["ok"]}
            assert status == 503
            assert "the disk is gone" in reasons["failed-log-dirs"]
            assert reasons["offline-replicas"].startswith("2 partitions")
            samples = await scrape(client)
            assert samples["kafka_log_logmanager_offlinelogdirectorycount"] == 1
            assert samples["kafka_server_replicamanager_offlinereplicacount"] == 2

    run(test)


def test_a_node_that_stops_is_not_ready(tmp_path: Path) -> None:
    async def test() -> None:
        async with running_node(tmp_path, HTTP) as client:
            from ottla.broker.monitoring.health import Stage

            client.node.stage = Stage.STOPPING
            status, text = await get(client, "/readyz")
            assert status == 503 and "the node is stopping" in text
            assert (await get(client, "/livez"))[0] == 200

    run(test)


def test_a_page_of_many_partitions_lets_requests_have_their_turn(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "ottla.broker.monitoring.report.SLICE_S", 0.0
    )  # so that it does not depend on this machine's speed

    async def test() -> None:
        async with running_node(tmp_path, HTTP) as client:
            await client.create("t", 500)
            await until_async(lambda: not parts(client.node).partitions.unmade, "every log")
            turns = 0

            async def count() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            counting = asyncio.create_task(count())
            report = client.node._report
            assert report is not None
            text = await report.text()
            counting.cancel()
            assert len(parsed(text)) > 500 * 9
            assert turns >= 2 * 500 / ITEMS_PER_LOOK

    run(test)


def test_quantiles_are_within_a_fifth() -> None:
    latency = Latency()
    for microseconds in range(1, 10_001):
        latency.record_ns(microseconds * 1000)
    for fraction in (0.1, 0.5, 0.95, 0.99):
        assert quantile_us(latency.buckets, fraction) == pytest.approx(10_000 * fraction, rel=0.05)
    assert quantile_us([0] * LATENCY_BUCKETS, 0.5) == 0


def test_a_time_falls_into_the_bucket_that_ends_behind_it() -> None:
    for microseconds in (0, 1, 3, 4, 7, 8, 9, 1000, 123_456_789, 10**12):
        latency = Latency()
        latency.record_ns(microseconds * 1000)
        index = latency.buckets.index(1)
        assert microseconds < bucket_limit_us(index) or index == LATENCY_BUCKETS - 1
        assert index == 0 or microseconds >= bucket_limit_us(index - 1)


def test_labels_are_escaped() -> None:
    assert tags(topic='a"b\\c\nd') == '{topic="a\\"b\\\\c\\nd"}'
    page = Page()
    page.add("ottla_build_info", 1, tags(version='"'))
    assert parsed("".join(page.parts())) == {'ottla_build_info{version="\\""}': 1}


def test_meters_have_both_names() -> None:
    assert METER_ALIASES["kafka_server_brokertopicmetrics_bytesinpersec"] == (
        "kafka_server_brokertopicmetrics_bytesin_total"
    )
