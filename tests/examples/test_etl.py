"""The files of `make demo-etl` and `make demo-cdc` fit together; a slow test runs the second, the first needs minutes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.examples.test_examples import ROOT
from tools.postgres import missing

FOLDER = ROOT / "examples" / "etl"


@pytest.mark.parametrize(("script", "words"), [("run.py", "S3"), ("capture.py", "into another database")])
def test_the_demo_finds_its_application_and_says_what_it_does(script: str, words: str) -> None:
    found = subprocess.run([sys.executable, FOLDER / script, "--help"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert words in found.stdout


@pytest.mark.parametrize(
    ("application", "topics"),
    [
        ("region_totals.py", ("shop-customers", "shop-orders", "orders-enriched", "region-totals")),
        ("orders_with_customers.py", ("shop.public.customers", "shop.public.orders", "orders-with-customers")),
    ],
)
def test_the_application_reads_and_writes_the_demos_topics(application: str, topics: tuple[str, ...]) -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "streams", "explain", str(FOLDER / application)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    for topic in topics:
        assert topic in found.stdout, found.stdout


@pytest.mark.slow  # a worker on Spark begins three times, a broker twice: more than a minute
@pytest.mark.spark
@pytest.mark.timeout(400)
def test_captured_tables_joined_into_another_database_equal_the_sources_own_join_after_kills() -> None:
    if reason := missing():
        pytest.skip(reason)
    command = [sys.executable, "-m", "tools.postgres", "run", "wal_level=logical", "--", sys.executable]
    found = subprocess.run([*command, FOLDER / "capture.py"], cwd=ROOT, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.count("with kill -9") == 3 and "equal to the source's own join" in found.stdout
