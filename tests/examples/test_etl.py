"""The files of `make demo-etl` fit together; the target itself takes minutes, a PostgreSQL and an S3 server."""

from __future__ import annotations

import subprocess
import sys

from tests.examples.test_examples import ROOT

FOLDER = ROOT / "examples" / "etl"


def test_the_demo_finds_its_application_and_says_what_it_does() -> None:
    found = subprocess.run([sys.executable, FOLDER / "run.py", "--help"], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert "S3" in found.stdout


def test_the_application_reads_and_writes_the_demos_topics() -> None:
    command = [sys.executable, "-m", "ottla.cli.main", "streams", "explain", FOLDER / "region_totals.py"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    for topic in ("shop-customers", "shop-orders", "orders-enriched", "region-totals"):
        assert topic in found.stdout, found.stdout
