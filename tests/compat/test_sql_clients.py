"""Clients of ksqlDB that nobody here wrote against `ottla sql server`: of PyPI, of npm, and curl over HTTP/2."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compat.other_languages import BUILD_SECONDS_MAX, HERE, cache
from tests.server import running_server
from tests.sql_server.running import SqlProcess, running_sql

KSQL, KSQLDB_CLIENT, KSQLDB_JS = "0.10.2", "1.0.5", "1.1.2"
OLD_NAMES = """
import collections, collections.abc, sys
for name in ("Iterable", "Mapping", "MutableMapping", "MutableSet"):
    setattr(collections, name, getattr(collections.abc, name))  # hyper, of 2018, looks for them there
"""
PYTHON = (
    OLD_NAMES
    + """
from ksql import KSQLAPI
url, name = sys.argv[1:]
client = KSQLAPI(url)
print(client.get_ksql_version())
client.ksql(f"CREATE STREAM {name} (id STRING, v INT) WITH (kafka_topic='{name}', value_format='JSON', partitions=1);")
print(client.inserts_stream(name, [{"ID": "a", "V": 1}, {"ID": "b", "V": 2}]))
earliest = {"auto.offset.reset": "earliest"}
query = f"select id, v from {name} emit changes limit 2"
print(list(client.query(query, return_objects=True, stream_properties=earliest)))
print("".join(client.query(query, use_http2=True, stream_properties=earliest)))
print(client.create_stream_as(table_name=name + "b", src_table=name, kafka_topic=name + "b", select_columns=["id", "v"],
                              conditions="v > 1", value_format="JSON"))
"""
)


@pytest.fixture(scope="module")
def sql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlProcess]:
    quick = ("group.initial.rebalance.delay.ms=0",)
    with (
        running_server(tmp_path_factory.mktemp("broker"), overrides=quick) as server,
        running_sql(server.bootstrap) as sql,
    ):
        yield sql


def ran(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def build_python() -> Path:
    """Return a Python with the client `ksql`; skips where pip cannot install it."""
    folder = cache() / f"ksql-{KSQL}"
    python = folder / "bin" / "python"
    if (folder / "done").exists():
        return python
    pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--retries", "1"]
    for step in (
        [sys.executable, "-m", "venv", "--clear", str(folder)],
        [*pip, "setuptools<70", "wheel"],
        [*pip, "--no-build-isolation", f"ksql=={KSQL}"],  # its setup imports pip
    ):
        done = subprocess.run(step, capture_output=True, text=True, timeout=BUILD_SECONDS_MAX, check=False)
        if done.returncode:
            pytest.skip(f"ksql {KSQL} cannot be installed here: {done.stderr.strip()[-200:]}")
    (folder / "done").touch()
    return python


def build_node() -> Path:
    """Return the folder with the clients for Node; skips where it, or they, are not to be had."""
    if shutil.which("npm") is None or shutil.which("node") is None:
        pytest.skip("ksqldb-client and ksqldb-js are absent: no node and npm on PATH")
    folder = cache() / "sql-clients"
    folder.mkdir(exist_ok=True)
    shutil.copy(HERE / "node" / "sql_clients.js", folder)
    wanted = {"ksqldb-client": KSQLDB_CLIENT, "ksqldb-js": KSQLDB_JS}
    (folder / "package.json").write_text(json.dumps({"private": True, "dependencies": wanted}))
    if not all((folder / "node_modules" / each).exists() for each in wanted):
        done = subprocess.run(
            ["npm", "install", "--no-package-lock", "--no-audit", "--no-fund", "--silent"],
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=BUILD_SECONDS_MAX,
            check=False,
        )
        if done.returncode:
            pytest.skip(f"npm cannot install the clients here: {done.stderr.strip()[-200:]}")
    return folder


def test_ksql_of_pypi(sql: SqlProcess) -> None:
    version, acknowledged, objects, *rest = ran(str(build_python()), "-c", PYTHON, sql.url, "pypi").splitlines()
    assert version == "8.4.0"
    assert acknowledged == "[{'status': 'ok', 'seq': 0}, {'status': 'ok', 'seq': 1}]"
    assert objects == "[{'ID': 'a', 'V': 1}, {'ID': 'b', 'V': 2}]"
    assert rest[1:3] == ['["a",1]', '["b",2]']
    assert rest[-1] == "True"


def test_ksqldb_client_and_ksqldb_js_of_npm(sql: SqlProcess) -> None:
    folder = build_node()
    told = [json.loads(line) for line in ran("node", str(folder / "sql_clients.js"), sql.url, "npm").splitlines()]
    found = {each["what"]: each["value"] for each in told}
    assert found == {
        "client made": "SUCCESS",
        "client inserted": "ok",
        "client pulled": [{"ID": "a", "V": 1}],
        "client pushed": [{"ID": "a", "V": 1}],
        "js inserted": [{"status": "ok", "seq": 0}],
        "js pulled": [["a", 1], ["b", 2]],
        "js pushed": [["c", 3]],
        "js info": "RUNNING",
    }


def test_curl_streams_a_query_over_http2(sql: SqlProcess) -> None:
    sql.ksql(
        "CREATE STREAM c (v INT) WITH (kafka_topic='curl', value_format='JSON', partitions=1); INSERT INTO c VALUES (7);"
    )
    body = json.dumps({"sql": "SELECT v FROM c EMIT CHANGES LIMIT 1;", "properties": {"auto.offset.reset": "earliest"}})
    said = ran(
        "curl", "-sS", "--http2-prior-knowledge", "-w", "%{http_version}", "-d", body, f"{sql.url}/query-stream"
    )  # fmt: skip
    head, row, version = said.splitlines()
    assert json.loads(head)["columnTypes"] == ["INTEGER"]
    assert (row, version) == ("[7]", "2")
