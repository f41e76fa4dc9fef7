"""Tests use what is public of the product: where one reaches into what is private, it is counted here.

A private name is one that the product's own code gives to an attribute, a method or a function (`_name`). `parts` of
`tests/broker/node_client.py` is the one door into a node.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from tests.test_architecture import FILES, tree_of

TESTS = Path(__file__).parent
TUPLES_OWN = {"_asdict", "_fields", "_make", "_replace"}
"""What is public of a NamedTuple."""
REACHES: Mapping[str, int] = {
    "broker/node_client.py": 1,
    "broker/test_answer_memory.py": 1,
    "broker/test_coordinator.py": 2,
    "broker/test_coordinator_office.py": 23,
    "broker/test_coordinator_timers.py": 5,
    "broker/test_failures.py": 2,
    "broker/test_idle_partitions.py": 4,
    "broker/test_isr.py": 3,
    "broker/test_leader_lease.py": 2,
    "broker/test_log_dir_moves.py": 2,
    "broker/test_metrics.py": 1,
    "broker/test_produce.py": 6,
    "broker/test_quorum_full_disk.py": 1,
    "cluster/test_coordinators_peer.py": 1,
    "cluster/test_lives.py": 4,
    "cluster/test_lost_partitions.py": 1,
    "cluster/test_reads.py": 5,
    "connect/contract/mutations.py": 2,
    "connect/tasks/test_runner.py": 8,
    "connect/tasks/test_task_client.py": 1,
    "connectors/jdbc/test_jdbc_sink.py": 1,
    "connectors/jdbc/test_jdbc_source.py": 1,
    "connectors/test_s3_sink.py": 4,
    "connectors/test_s3_source.py": 1,
    "cost/stretches.py": 1,
    "faults/broker_stage.py": 4,
    "faults/follower_stage.py": 1,
    "faults/mutations.py": 2,
    "log/test_append.py": 1,
    "log/test_cleaner_crashes.py": 1,
    "log/test_retention.py": 1,
    "log/test_whole_or_not.py": 1,
    "mirror/machine/mutations.py": 11,
    "net/test_tls.py": 1,
    "registry/machine/mutations.py": 1,
    "replica/test_follower_session.py": 1,
    "replica/test_waits.py": 2,
    "security/sasl/test_jwt.py": 1,
    "security/test_authorizer.py": 2,
    "sim/cluster/inspection.py": 1,
    "sim/cluster/world.py": 2,
    "sim/named_mutations.py": 4,
    "sim/test_compaction.py": 1,
    "sim/test_faults.py": 1,
    "sim/world.py": 1,
    "spark/test_local_files.py": 3,
    "spark/test_private_api.py": 4,
    "streams/lanes/mutations.py": 1,
    "streams/machine/cases.py": 7,
    "streams/machine/mutations.py": 1,
    "streams/machine/sparks.py": 5,
    "streams/spark/test_checkpoint_at_a_uri.py": 3,
    "streams/spark/test_lost_input.py": 2,
    "streams/spark/test_one_driver.py": 4,
    "streams/spark/test_stateful_task.py": 1,
    "transactions/test_cluster.py": 1,
}
"""How often each file does; the numbers only shrink."""


@cache
def private_names() -> frozenset[str]:
    """Return every private name of the product's classes and modules."""
    return frozenset(name for path in FILES for name in _defined(tree_of(path))) - TUPLES_OWN


def _defined(tree: ast.AST) -> Iterator[str]:
    """Yield the private names that a module gives to functions and attributes."""
    for node in ast.walk(tree):
        name = ""
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            name = node.name
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            name = node.attr
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            name = node.target.id
        if name.startswith("_") and not name.startswith("__"):
            yield name


def reaches(tree: ast.AST) -> Iterator[str]:
    """Yield the private names of the product that a test's module uses of something else than itself."""
    foreign = private_names() - set(_defined(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in foreign and ast.unparse(node.value) not in ("self", "cls"):
            yield node.attr


def test_no_test_reaches_further_into_what_is_private() -> None:
    found = Counter(
        {str(path.relative_to(TESTS)): sum(1 for _ in reaches(tree_of(path))) for path in sorted(TESTS.rglob("*.py"))}
    )
    more = {name: count for name, count in found.items() if count > REACHES.get(name, 0)}
    assert not more, f"use the public API, or add a door to it that is honest: {more}"
    gone = [name for name in REACHES if not found[name]]
    assert not gone, f"take them off the list: {gone}"
