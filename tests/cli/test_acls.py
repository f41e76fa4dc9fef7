"""`ottla acls` against a broker whose administrator is everybody."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.acl_calls import USAGE_ERRORS
from tests.cli.conftest import Run
from tests.server import Server, running_server

AUTHORIZER = (
    "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users=User:ANONYMOUS",
)
READ_T = (
    "Adding ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`: \n"
    " \t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)\n\n"
)
LISTED = """Current ACLs for resource `ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL)`:
\t(principal=User:a, host=*, operation=READ, permissionType=ALLOW)

"""
EXISTS = (
    "Acl (pattern=ResourcePattern(resourceType=TOPIC, name=t, patternType=LITERAL), "
    "entry=(principal=User:a, host=*, operation=READ, permissionType=ALLOW)) already exists.\n"
)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running_server(tmp_path_factory.mktemp("broker"), overrides=AUTHORIZER) as server:
        yield server


def test_an_entry_is_added_listed_and_removed_when_that_is_confirmed(run: Run, server: Server) -> None:
    command = f"acls --bootstrap-server {server.bootstrap}"
    assert run(f"{command} --add --allow-principal User:a --topic t --operation Read").out == READ_T
    assert run(f"{command} --add --allow-principal User:a --topic t --operation Read").out == EXISTS
    assert run(f"{command} --list --topic t").out == LISTED
    [row] = json.loads(run(f"{command} --list --topic t -o json").out)
    assert row == {
        "resourceType": "TOPIC",
        "name": "t",
        "patternType": "LITERAL",
        "principal": "User:a",
        "host": "*",
        "operation": "READ",
        "permissionType": "ALLOW",
    }
    question = "Are you sure you want to delete all ACLs for resource filter"
    kept = run(f"{command} --remove --topic t", stdin="n\n")
    assert (kept.code, kept.out.startswith(question)) == (0, True)
    unasked = run(f"{command} --remove --topic t", stdin="")
    assert unasked.code == 1 and "--force" in unasked.out
    assert run(f"{command} --list --topic t").out == LISTED
    assert run(f"{command} --remove --topic t", stdin="y\n").code == 0
    assert run(f"{command} --list --topic t").out == ""


@pytest.mark.parametrize("call", USAGE_ERRORS)
def test_options_that_do_not_go_together_are_refused_before_anybody_is_asked(run: Run, call: str) -> None:
    found = run(f"acls --bootstrap-server 127.0.0.1:1 {call}")
    assert (found.code, found.out) == (1, "")
    assert found.err


def test_without_an_authorizer_the_error_is_one_line(run: Run, tmp_path: Path) -> None:
    with running_server(tmp_path) as server:
        found = run(f"acls --bootstrap-server {server.bootstrap} --list")
    assert found.code == 1
    assert found.out == (
        "Error while executing ACL command: org.apache.kafka.common.errors.SecurityDisabledException: "
        "No Authorizer is configured on the broker\n"
    )
