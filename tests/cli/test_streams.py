"""`ottla streams`: an application's file is found, its plan is printed, and its stores are asked."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base import TopicPartition
from ottla.cli.commands.streams import one_line
from ottla.client import BlockingClient
from ottla.spark.streams.state.stores import CAUGHT_UP_SECONDS_MAX
from ottla.wire import Record, build_batch
from tests.cli.conftest import Run
from tests.server import running_server
from tests.spark.conftest import create_topic

PLAN = """
(stream.flat_map_values(lambda line: line.lower().split(), value_serde="string")
       .group_by(lambda key, word: word, key_serde="string", value_serde="string")
       .count(materialized="counts").to_stream().to("counts-out", key_serde="string", value_serde="long"))
"""
FORMS = {
    "builder": f"builder = StreamsBuilder()\nstream = builder.stream('text')\n{PLAN}",
    "topology": "b = StreamsBuilder()\nstream = b.stream('text', key_serde='string', value_serde='string')\n"
    f"{PLAN}\ntopology = b.build()",
    "build": "def build(builder):\n    stream = builder.stream('text')\n    " + PLAN.strip().replace("\n", "\n    "),
}


def application(folder: Path, form: str = "builder", name: str = "words") -> Path:
    settings = "settings = {'default.key.serde': 'string', 'default.value.serde': 'string'}"
    path = folder / f"{name}.py"
    path.write_text(f"from ottla.streams import StreamsBuilder\n{settings}\n{FORMS[form]}\n")
    return path


@pytest.mark.parametrize("form", FORMS)
def test_a_plan_may_be_a_builder_a_topology_or_a_function(form: str, run: Run, tmp_path: Path) -> None:
    found = run(f"streams describe {application(tmp_path, form)}")
    assert found.code == 0, found
    assert found.out.startswith(
        "Topologies:\n   Sub-topology: 0\n    Source: KSTREAM-SOURCE-0000000000 (topics: [text])\n"
    )


def test_explain_says_which_queries_there_are(run: Run, tmp_path: Path) -> None:
    found = run(f"streams explain {application(tmp_path)}")
    lines = found.out.splitlines()
    assert lines[:4] == [
        "native-counts (native)",
        "  reads    text",
        "  writes   counts-out",
        "  state    counts (timestamped_key_value)",
    ]
    assert lines[-2] == "shuffled by Spark in the place of repartition topics: counts-repartition"
    assert any(line.startswith("  native   KSTREAM-AGGREGATE") for line in lines)


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("nothing", "", "a function `build` that returns either is expected, and it has nothing of them"),
        ("number", "topology = 5", "it has a int"),
        ("not-a-name", "", "its name is to be one of Python's"),
    ],
)
def test_a_file_that_is_no_application_is_one_sentence(
    name: str, text: str, words: str, run: Run, tmp_path: Path
) -> None:
    path = tmp_path / f"{name}.py"
    path.write_text(text)
    found = run(f"streams describe {path}")
    assert found.code == 1 and words in found.err and found.err.count("\n") == 1


def test_a_file_that_is_not_there_and_a_wrong_setting_are_named(run: Run, tmp_path: Path) -> None:
    assert "missing.py does not exist" in run(f"streams describe {tmp_path}/missing.py").err
    path = application(tmp_path)
    found = run(f"streams run {path} --bootstrap-server localhost:1 --property commit.intervall.ms=1")
    assert found.code == 1 and "did you mean commit.interval.ms" in found.err


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlockingClient]:
    with running_server(tmp_path_factory.mktemp("ottla")) as server, BlockingClient(server.bootstrap) as opened:
        yield opened


def test_a_store_is_asked_from_anywhere(run: Run, tmp_path: Path, client: BlockingClient) -> None:
    create_topic(client, "words-counts-changelog", 1)
    records = [Record(0, 5, word, count.to_bytes(8, "big"), ()) for word, count in ((b"a", 3), (b"b", 1))]
    client.produce({TopicPartition("words-counts-changelog", 0): bytes(build_batch(records))})
    path = application(tmp_path)
    at = ",".join(map(str, client.client.bootstrap))
    found = run(f"streams query {path} counts --bootstrap-server {at}")
    assert (found.code, found.out.split()) == (0, ["KEY", "VALUE", "a", "3", "b", "1"]), found
    assert "as of offsets {'0': 2} of its changelog, 0 records behind it" in found.err
    assert "not processed yet" not in found.err
    found = run(f"streams query {path} counts --bootstrap-server {at} --key a -o json")
    assert json.loads(found.out)["value"] == 3
    assert run(f"streams query {path} counts --bootstrap-server {at} --key z").code == 1
    found = run(f"streams query {path} other --bootstrap-server {at}")
    assert found.code == 1 and "no such store is registered" in found.err


def test_an_application_that_never_ran_is_told_at_once_and_not_after_a_minute(
    run: Run, tmp_path: Path, client: BlockingClient
) -> None:
    at = ",".join(map(str, client.client.bootstrap))
    began_s = time.monotonic()
    found = run(f"streams query {application(tmp_path)} counts --bootstrap-server {at} --property application.id=never")
    assert found.code == 1 and "the application has not been started yet" in found.err, found
    assert time.monotonic() - began_s < CAUGHT_UP_SECONDS_MAX / 2


def test_a_file_that_is_not_there_is_told_before_any_start(run: Run, tmp_path: Path) -> None:
    found = run(f"streams run {tmp_path / 'nope.py'}")
    assert (found.code, found.out) == (1, ""), found
    assert "nope.py does not exist" in found.err


def test_help_imports_nothing_heavy() -> None:
    code = "import sys; from ottla.cli.main import main\ntry: main(['streams', '--help'])\nexcept SystemExit: pass\n"
    code += "print({'pyspark', 'pyarrow', 'numpy', 'rich', 'aiohttp', 'ottla.streams'} & set(sys.modules))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines()[-1] == "set()"


def test_a_status_line_says_what_went_wrong_and_when_it_goes_on() -> None:
    query = {"name": "one", "restart_in_s": 4.0, "last_error": "IOError: x", "late": 2, "dropped": 0, "skipped": 0}
    status = {"state": "REBALANCING", "rows": 1234, "rows_per_second": 10.0, "lag": 5, "queries": [query]}
    assert one_line(status) == (
        "REBALANCING, 1,234 rows, 10 rows/s, lag 5; one starts again in 4 s: IOError: x; one: 2 late"
    )


def test_explain_goes_by_the_files_own_settings(run: Run, tmp_path: Path) -> None:
    views = Path(__file__).resolve().parents[2] / "examples" / "streams" / "page_views.py"
    assert "stateful KSTREAM-AGGREGATE" in run(f"streams explain {views}").out
    assert "native   KSTREAM-AGGREGATE" in run(f"streams explain {views} --stream-time auto").out
