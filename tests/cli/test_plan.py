"""`ottla plan`: the console's actions on the command line, shown and then run by their hash."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Run
from tests.server import running_server


def test_a_plan_is_shown_and_run_by_its_hash(run: Run, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        more = f"--bootstrap-server {server.bootstrap}"
        create = f"plan create-topic topic=orders partitions=2 {more}"
        plan = json.loads(run(f"{create} -o json").out)
        assert {"path": "topic orders/partitions", "before": None, "after": 2} in plan["diff"]
        assert f"--run {plan['hash']}" in run(create).out
        assert run(f"{create} --run {'0' * 64}").code == 3
        assert run(f"{create} --run {plan['hash']}").out == "done\n"
        delete = f"plan delete-topic topic=orders {more}"
        shown = json.loads(run(f"{delete} -o json").out)
        refused = run(f"{delete} --run {shown['hash']}")
        assert refused.code == 1 and "--typed orders" in refused.err
        assert run(f"{delete} --run {shown['hash']} --typed orders").out == "done\n"
        wrong = run(f"plan explode {more}")
        assert wrong.code == 1 and "There is no action explode" in wrong.err
        assert run(f"plan create-topic topic {more}").code != 0
