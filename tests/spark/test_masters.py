"""Local masters, read as Spark reads them."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from ottla.spark.masters import local_slots
from ottla.spark.sessions import settings_for


@pytest.mark.parametrize(
    ("master", "slots"),
    [
        ("local", 1),
        ("local[1]", 1),
        ("local[3]", 3),
        ("local[3,5]", 3),
        ("local[3 , 5]", 3),
        ("local-cluster[2,3,1024]", 6),
        ("local-cluster[ 2 , 1 , 512 ]", 2),
        ("local[0]", None),
        ("local[-1]", None),
        ("local[]", None),
        ("local[x]", None),
        ("local[\N{ARABIC-INDIC DIGIT TWO}]", None),
        (f"local[{'9' * 5000}]", None),
        ("local-cluster[2]", None),
        ("localhost", None),
        ("spark://host:7077", None),
        ("yarn", None),
        ("", None),
    ],
)
def test_the_slots_of_a_master_are_those_that_spark_gives_it(master: str, slots: int | None) -> None:
    assert local_slots(master) == slots


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs processes that are kept to some cores")
def test_a_star_is_the_cores_that_the_process_may_use() -> None:
    text = (
        "import os; os.sched_setaffinity(0, [min(os.sched_getaffinity(0))]); "
        "from ottla.spark.masters import local_slots; print(local_slots('local[*]'), local_slots('local[*,4]'))"
    )
    done = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["1", "1"]


@pytest.mark.parametrize(
    ("master", "asks"), [("local", True), ("local[*]", True), ("local-cluster[1,1,512]", False), ("yarn", False)]
)
def test_the_ports_of_a_session_in_one_process_take_nothing_of_strangers(master: str, asks: bool) -> None:
    assert (settings_for(master).get("spark.authenticate") == "true") is asks
    assert settings_for("local[1]")["spark.driver.bindAddress"] == "127.0.0.1"
