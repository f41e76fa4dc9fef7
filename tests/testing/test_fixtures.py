"""A foreign project's tests get a broker, topics and records from the plugin, and services where they ask for them."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from ottla.testing.plugin import __name__ as plugin_name
from tests.testing.project import PLUGIN, run_project
from tests.waiting import until

ROOT = Path(__file__).resolve().parents[2]

PROJECT = """
    import pytest
    from confluent_kafka import Consumer, Producer

    def test_orders_are_sent(kafka, kafka_topic, kafka_records):
        assert kafka_topic.startswith("test_orders_are_sent")
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for number in range(3):
            producer.produce(kafka_topic, str(number), key="k")
        producer.flush()
        assert [(each.text, each.key) for each in kafka_records(kafka_topic)] == [(str(n), b"k") for n in range(3)]

    @pytest.mark.kafka_topic(partitions=3, config={"retention.ms": 1000})
    def test_orders_are_read(kafka, kafka_topic):
        assert kafka.topics() == [kafka_topic]  # that of the test before is gone
        places = kafka.produce(kafka_topic, "a", b"b", {"total": 7}, None)
        assert [each.partition for each in places] == [0, 1, 2, 0]
        consumer = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "orders",
                             "auto.offset.reset": "earliest"})
        consumer.subscribe([kafka_topic])
        assert kafka.lag("orders", kafka_topic) == 4
        seen = [consumer.poll(10).value() for _ in range(4)]
        consumer.commit(asynchronous=False)
        kafka.wait_until_read(kafka_topic, "orders")
        assert kafka.members("orders") == ["rdkafka"]
        consumer.close()
        assert sorted(map(repr, seen)) == ["None", "b'a'", "b'b'", "b'{\\"total\\": 7}'"]
        assert kafka.records(kafka_topic)[3].json == {"total": 7}

    def test_aborted_records_are_not_committed(kafka, kafka_topic, kafka_records):
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": "t"})
        producer.init_transactions()
        for value, ends in ("kept", producer.commit_transaction), ("gone", producer.abort_transaction):
            producer.begin_transaction()
            producer.produce(kafka_topic, value)
            producer.flush()
            ends()
        producer.begin_transaction()
        producer.produce(kafka_topic, "open")
        producer.flush()
        assert [each.text for each in kafka_records(kafka_topic, committed=True)] == ["kept"]
        assert [each.text for each in kafka_records(kafka_topic)] == ["kept", "gone", "open"]
        with pytest.raises(TimeoutError, match="has 1 records after 0.1 s, not 2"):
            kafka_records(kafka_topic, committed=True, at_least=2, seconds=0.1)
        producer.abort_transaction()

    def test_a_broker_of_its_own(kafka, kafka_factory):
        own = kafka_factory({"auto.create.topics.enable": "false"})
        assert own.bootstrap_servers != kafka.bootstrap_servers
        own.create_topic("orders")
        assert own.topics() == ["orders"] and "orders" not in kafka.topics()

    def test_settings_are_the_projects(kafka, kafka_topic):
        from confluent_kafka.admin import AdminClient, ConfigResource
        asked = ConfigResource(ConfigResource.Type.BROKER, "1")
        admin = AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        found = admin.describe_configs([asked])[asked].result(10)
        assert found["message.max.bytes"].value == "2000000"
        with pytest.raises(TypeError, match="not int"):
            kafka.produce(kafka_topic, 7)
        for asks in kafka.records, kafka.ends, kafka.produce:
            with pytest.raises(Exception, match="there is no topic nobody"):
                asks("nobody")
        with pytest.raises(TimeoutError, match="nobody has 0 records after 0.1 s, not 1"):
            kafka.records("nobody", at_least=1, seconds=0.1)
"""


def test_a_foreign_project_tests_with_a_real_broker(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nottla_kafka_settings =\n    message.max.bytes=2000000\n")
    result = run_project(pytester, PROJECT, "-q", "-n0", "--ottla-keep")
    result.assert_outcomes(passed=5)
    kept = re.findall("^ottla: a broker's data is left in (.+)$", result.stdout.str(), re.MULTILINE)
    assert len(kept) == 2
    for each in kept:
        assert (Path(each) / "data" / "meta.properties").exists()
        shutil.rmtree(each)


def test_a_wrong_setting_is_told_with_what_is_wrong(pytester: pytest.Pytester) -> None:
    result = run_project(
        pytester,
        "def test_it(kafka): pass",
        "-n0",
        conftest="""
            import pytest

            @pytest.fixture(scope="session")
            def kafka_settings():
                return {"log.segment.bytes": "many"}
        """,
    )
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*has ended before it was ready; it printed:", "*Invalid value many for*"])


def test_an_address_of_the_projects_choice_is_refused(pytester: pytest.Pytester) -> None:
    ini = "[pytest]\nottla_kafka_settings = listeners=PLAINTEXT://127.0.0.1:9092\n"
    pytester.makeini(ini)
    result = run_project(pytester, "def test_it(kafka): pass", "-n0")
    result.stdout.fnmatch_lines(["*ValueError: listeners: the tests' broker chooses where it listens*"])


@pytest.mark.slow
def test_each_worker_of_xdist_has_its_own_broker(pytester: pytest.Pytester) -> None:
    result = run_project(
        pytester,
        """
            import os, pathlib, pytest

            @pytest.mark.parametrize("number", range(4))
            def test_it(kafka, kafka_topic, number):
                assert kafka.topics() == [kafka_topic]
                pathlib.Path(os.environ["PYTEST_XDIST_WORKER"]).write_text(kafka.bootstrap_servers)
        """,
        "-n2",
        "--dist=each",
    )
    result.assert_outcomes(passed=8)
    assert len({(pytester.path / each).read_text() for each in ("gw0", "gw1")}) == 2


@pytest.mark.slow
def test_services_stand_beside_the_broker(pytester: pytest.Pytester) -> None:
    result = run_project(
        pytester,
        """
            import pytest
            from ottla.testing import ServiceError

            def test_schemas(schema_registry):
                assert schema_registry.register("orders-value", {"type": "string"}) == 1
                assert schema_registry.subjects() == ["orders-value"]
                assert schema_registry.latest("orders-value")["version"] == 1
                with pytest.raises(ServiceError, match="not found") as refused:
                    schema_registry.latest("nobody")
                assert (refused.value.status, refused.value.code) == (404, 40401)

            def test_sql(ottla_sql, kafka, kafka_topic):
                ottla_sql.run(f"CREATE STREAM s (a INT) WITH (kafka_topic='{kafka_topic}', value_format='JSON');")
                kafka.produce(kafka_topic, {"a": 1}, {"a": 2})
                select = "SELECT a FROM s EMIT CHANGES LIMIT 2;"
                assert ottla_sql.query(select, auto_offset_reset="earliest") == [[1], [2]]
                with pytest.raises(ServiceError, match="NOBODY"):
                    ottla_sql.run("DROP STREAM nobody;")
        """,
        "-n0",
    )
    result.assert_outcomes(passed=2)


@pytest.mark.slow
@pytest.mark.spark
def test_connect_runs_a_connector(pytester: pytest.Pytester) -> None:
    result = run_project(
        pytester,
        """
            import pytest
            from ottla.testing import ServiceError

            def test_lines_go_into_a_topic(connect, kafka, kafka_topic, kafka_records, tmp_path):
                (tmp_path / "lines").write_text("one\\ntwo\\n")
                config = {"connector.class": "FileStreamSource", "file": tmp_path / "lines", "topic": kafka_topic,
                          "tasks.max": 1, "value.converter": "org.apache.kafka.connect.storage.StringConverter"}
                connect.create("lines", config)
                found = kafka_records(kafka_topic, at_least=2, seconds=60)
                assert [each.text for each in found] == ["one", "two"]
                connect.delete("lines")
                with pytest.raises(ServiceError):
                    connect.create("nothing", {"connector.class": "Nobody"})
        """,
        "-n0",
    )
    result.assert_outcomes(passed=1)


def test_pytest_finds_the_plugin_and_loads_nothing_of_the_broker() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["entry-points"]["pytest11"] == {"ottla": PLUGIN} and plugin_name == PLUGIN
    code = (
        f"import sys, {PLUGIN}; print(sorted(each for each in sys.modules if each.startswith('ottla.') "
        "and each.split('.')[1] not in ('base', 'testing')), 'asyncio' in sys.modules and 'pytest' not in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["[]", "False"]


def test_the_plugin_breaks_no_run_of_an_older_pytest() -> None:
    """It is loaded into each run, with whatever pytest is there: of version 6 it has all that is needed at import."""
    code = f"""
import sys, types

def passed(*given, **_):
    return given[0] if given else lambda it: it

class Config:
    def addinivalue_line(self, name, line):
        print(name)

sys.modules["pytest"] = types.SimpleNamespace(fixture=passed, hookimpl=passed)
import {PLUGIN} as plugin
plugin.pytest_configure(Config())
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "markers\n"


def test_the_plugin_alone_needs_pytest() -> None:
    code = "import sys, ottla.testing; from ottla.testing import running_broker; print('pytest' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_a_broker_ends_where_the_tests_are_killed(tmp_path: Path) -> None:
    code = (
        "from pathlib import Path; from ottla.testing import running_broker\n"
        f"with running_broker(folder=Path({str(tmp_path)!r})) as kafka: print(kafka.bootstrap_servers, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as tests:
        assert tests.stdout is not None
        host, _, port = tests.stdout.readline().strip().rpartition(":")
        socket.create_connection((host, int(port)), 10).close()
        tests.kill()
    until(lambda: is_refused(host, int(port)), "the broker's end")


def is_refused(host: str, port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex((host, port)) != 0
