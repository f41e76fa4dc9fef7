"""What went wrong in Kafka's own security, each as a test: which one holds it, and those that belong nowhere else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from ottla.base import ErrorCode
from ottla.security import Operation, Resource
from ottla.wire.messages.consumer_group_describe import ConsumerGroupDescribeRequest
from ottla.wire.messages.describe_groups import DescribeGroupsRequest
from tests.broker.askers import AUTHORIZER, Asker, allowed, grant
from tests.broker.node_client import run, running_node

ROOT = Path(__file__).resolve().parents[2]
FAULTS = {
    "CVE-2017-12610": [  # a foreign authorization id was believed
        "security/sasl/test_exchanges.py::test_nobody_gets_rights_that_he_asks_for_as_another",
        "broker/test_oauthbearer.py::test_a_foreign_authorization_id_is_refused",
    ],
    "CVE-2018-1288": [  # a consumer fetched as a replica
        "broker/test_authorizer.py::test_a_replica_without_a_brokers_right_gets_nothing_and_says_nothing",
    ],
    "CVE-2018-17196": [  # a transactional batch in a request without a transactional id
        "broker/test_authorizer.py::test_a_transactional_batch_without_a_transactional_id_is_refused",
    ],
    "CVE-2019-12399": ["connect/test_handling.py::test_secrets_are_hidden_and_placeholders_for_them_are_not"],
    "CVE-2021-38153": ["broker/test_known_faults.py::test_secrets_are_compared_in_constant_time"],
    "CVE-2022-34917": [  # memory by declared sizes
        "hostile/test_hostile_logins.py::test_frames_that_announce_much_and_connections_that_wait_cost_next_to_nothing",
        "hostile/test_hostile_memory.py::test_hundreds_of_clients_that_announce_much_and_send_little_cost_little",
    ],
    "CVE-2023-25194": ["security/test_jaas.py::test_no_other_module_is_let_in_anywhere"],
    "CVE-2023-34455": [  # snappy
        "wire/test_compression.py::test_a_declared_snappy_size_is_not_believed",
        "hostile/test_hostile_records.py::test_a_decompression_bomb_is_refused_within_bounds",
    ],
    "CVE-2024-27309": [  # a removal closed, or opened, more than it should
        "security/test_authorizer.py::test_changes_of_entries_in_any_order_leave_what_a_naive_model_decides",
    ],
    "CVE-2024-31141": [
        "connect/test_handling.py::test_providers_read_only_where_they_are_allowed",
        "spark/test_override_placeholders.py::test_what_is_not_allowed_is_refused_by_name",
    ],
    "CVE-2024-56128": [  # SCRAM's final nonce
        "security/sasl/test_exchanges.py::test_an_altered_final_message_fails",
        "security/sasl/test_exchanges.py::test_a_final_message_that_was_overheard_is_worth_nothing_in_another_exchange",
    ],
    "CVE-2025-27817": [  # URLs of tokens and keys read files and inner hosts
        "security/sasl/test_key_reader.py::test_only_what_is_allowed_word_by_word_is_read",
        "security/sasl/test_key_reader.py::test_redirects_and_floods_and_failures_bring_nothing",
    ],
    "CVE-2025-27818": ["security/test_jaas.py::test_no_other_module_is_let_in_anywhere"],
    "CVE-2025-27819": ["security/test_jaas.py::test_no_other_module_is_let_in_anywhere"],
    "CVE-2026-33557": [  # tokens that nobody had signed
        "security/sasl/test_jwt.py::test_a_token_that_nobody_signed_is_refused",
        "security/sasl/test_jwt.py::test_a_public_key_is_never_taken_for_a_secret",
        "broker/test_oauthbearer.py::test_what_would_take_tokens_of_anybody_does_not_start",
    ],
    "CVE-2026-33558": ["broker/test_sasl_live.py::test_no_secret_of_a_login_is_logged_described_or_measured"],
    "CVE-2026-35554": [  # a buffer that was used again while it was sent
        "net/test_tls.py::test_memory_that_was_written_may_be_used_again_at_once",
        "hostile/test_hostile_memory.py::test_thirty_clients_that_do_not_read_cost_little_and_hold_up_nobody",
    ],
    "CVE-2026-41115": ["broker/test_known_faults.py::test_a_group_is_described_by_the_right_to_describe_it"],
    "CVE-2026-110985": ["security/sasl/test_jwt.py::test_a_signed_token_that_says_the_wrong_thing_is_refused"],
    "CVE-2026-111073": ["wire/test_compression.py::test_a_bomb_is_refused_at_the_limit"],
    "CVE-2026-111108": ["hostile/test_hostile_frames.py::test_mutated_requests_of_every_api_leave_the_broker_well"],
    "CVE-2026-111115": ["hostile/test_hostile_frames.py::test_mutated_requests_of_every_api_leave_the_broker_well"],
}
SECRET = ("password", "passphrase", "secret", "hmac", "mac", "digest", "proof", "signature", "stored_key", "server_key")
"""How names begin or end that hold something secret, or what is made of it."""
PLACES = ("security", "http", "connect/decisions", "spark/connect", "registry/rest", "broker/requests", "net")
"""Where what a peer sends may be compared with it."""
PUBLIC = {"signature_algorithm"}
NO_PEERS = {"security/keystores.py"}
"""Where an operator's own settings are compared with each other."""


@pytest.mark.parametrize("fault", FAULTS)
def test_each_known_fault_has_a_test(fault: str) -> None:
    for each in FAULTS[fault]:
        path, _, name = each.partition("::")
        tree = ast.parse((ROOT / "tests" / path).read_text())
        assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, each


def compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield lines where something with a secret's name is compared by == or != with anything but a constant."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Compare) or not any(isinstance(each, ast.Eq | ast.NotEq) for each in node.ops):
            continue
        sides = [node.left, *node.comparators]
        if any(isinstance(each, ast.Constant) for each in sides):
            continue
        for each in sides:
            name = each.attr if isinstance(each, ast.Attribute) else each.id if isinstance(each, ast.Name) else ""
            plain = name.strip("_")
            if plain not in PUBLIC and any(plain.startswith(word) or plain.endswith(word) for word in SECRET):
                yield node.lineno, name


def test_secrets_are_compared_in_constant_time() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{line}: {name}"
        for place in PLACES
        for path in sorted((ROOT / "src" / "ottla" / place).rglob("*.py"))
        if str(path.relative_to(ROOT / "src" / "ottla")) not in NO_PEERS
        for line, name in compared(ast.parse(path.read_text()))
    ]
    assert not found, "compared by ==, which tells by its time how much was right: hmac.compare_digest"


def test_a_comparison_that_tells_by_its_time_is_found() -> None:
    assert list(compared(ast.parse("a.password == found"))) == [(1, "password")]
    assert not list(compared(ast.parse("password == ''; compare_digest(password, found)")))


def test_a_group_is_described_by_the_right_to_describe_it(tmp_path: Path) -> None:
    """Who may read a group and is denied to describe it sees nothing of it: DESCRIBE is asked for, and not READ."""

    async def test() -> None:
        async with running_node(tmp_path, *AUTHORIZER) as client:
            await grant(
                client.node,
                allowed("User:a", Operation.READ, Resource.GROUP, "g"),
                allowed("User:b", Operation.READ, Resource.GROUP, "g"),
                allowed("User:b", Operation.DESCRIBE, Resource.GROUP, "g", denies=True),
                allowed("User:c", Operation.DESCRIBE, Resource.GROUP, "g"),
            )
            for who, is_refused in (("User:a", False), ("User:b", True), ("User:c", False), ("User:d", True)):
                asker = Asker(client.node, who)
                [classic] = (await asker.ask(DescribeGroupsRequest(groups=["g"]))).groups
                [modern] = (await asker.ask(ConsumerGroupDescribeRequest(group_ids=["g"]))).groups
                for answer in (classic, modern):
                    assert (answer.error_code == ErrorCode.GROUP_AUTHORIZATION_FAILED) is is_refused, who
                    assert not answer.members

    run(test)
