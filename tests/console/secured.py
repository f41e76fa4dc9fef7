"""A broker on which users log in and have rights, and a console on which they log in, too."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ottla.admin import create_acls
from ottla.cli.main import main
from ottla.client import BlockingClient, client_network
from ottla.security import CLUSTER_NAME, Acl, Operation, PatternType, PermissionType, Resource
from tests.broker.sasl_client import PLAIN
from tests.console.running import RunningConsole, running_console
from tests.server import Server, running_server

MECHANISMS = "PLAIN,SCRAM-SHA-512"
USERS = ("root", "console", "ann", "bob")
PLAIN_PROPERTIES = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}


def password(user: str) -> str:
    return f'{user} = "its\\own" secret'


def properties(user: str) -> dict[str, str]:
    """A client's properties as one of the users."""
    quoted = password(user).replace("\\", "\\\\").replace('"', '\\"')
    return PLAIN_PROPERTIES | {"sasl.jaas.config": f'{PLAIN} required username="{user}" password="{quoted}";'}


def librdkafka(server: Server, user: str) -> dict[str, Any]:
    return {
        "bootstrap.servers": server.bootstrap,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.username": user,
        "sasl.password": password(user),
    }


def admin(server: Server) -> BlockingClient:
    return BlockingClient(server.bootstrap, network=client_network(properties("root")))


def give(server: Server, acls: list[Acl]) -> None:
    """Make entries of access."""
    with admin(server) as client:
        create_acls(client, acls)


def entry(
    user: str, operation: Operation, kind: Resource, name: str, pattern: PatternType = PatternType.LITERAL
) -> Acl:
    return Acl(kind, name, pattern, f"User:{user}", "*", operation, PermissionType.ALLOW)


ANN_READS_A = [
    entry("ann", Operation.READ, Resource.TOPIC, "a", PatternType.PREFIXED),
    entry("ann", Operation.READ, Resource.GROUP, "a", PatternType.PREFIXED),
]
CONSOLE_SEES = [
    entry("console", Operation.DESCRIBE, Resource.CLUSTER, CLUSTER_NAME),
    entry("console", Operation.DESCRIBE, Resource.TOPIC, "*"),
    entry("console", Operation.DESCRIBE, Resource.GROUP, "*"),
]


@contextmanager
def secured_server(folder: Path, *more: str, tokens: bool, mechanisms: str = MECHANISMS) -> Iterator[Server]:
    """A broker whose rights are kept; `ann` may read `a*`, `bob` nothing, `root` everything, `console` sees."""
    quoted = {user: password(user).replace("\\", "\\\\").replace('"', '\\"') for user in USERS}
    users = " ".join(f'user_{user}="{each}"' for user, each in quoted.items())
    overrides = [
        "listeners=SASL_PLAINTEXT://127.0.0.1:0",
        "security.inter.broker.protocol=SASL_PLAINTEXT",
        "sasl.mechanism.inter.broker.protocol=PLAIN",
        f"sasl.enabled.mechanisms={mechanisms}",
        f'listener.name.sasl_plaintext.plain.sasl.jaas.config={PLAIN} required username="root" '
        f'password="{quoted["root"]}" {users};',
        "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users=User:root;User:ANONYMOUS",
        "group.initial.rebalance.delay.ms=0",
        "offsets.topic.num.partitions=1",
        *(["delegation.token.secret.key=the cluster's own"] if tokens else []),
        *more,
    ]
    command = ["storage", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "--override", f"log.dirs={folder / 'data'}"]
    command += ["--add-scram", f"SCRAM-SHA-512=[name=ann,password={password('ann')}]"]
    (folder / "server.properties").write_text("")
    assert main([*command, "-c", str(folder / "server.properties")]) == 0
    with running_server(folder, overrides=overrides) as running:
        with ThreadPoolExecutor(1) as thread:  # playwright has a loop of its own in this one
            thread.submit(give, running, [*ANN_READS_A, *CONSOLE_SEES]).result()
        yield running


@contextmanager
def console_with_logins(
    server: Server, folder: Path, *options: str, mechanisms: str = MECHANISMS, listen: str = "127.0.0.1:0"
) -> Iterator[RunningConsole]:
    """A console over it on which nobody has logged in."""
    given = folder / "console.properties"
    lines = [f"{key}={value.replace(chr(92), chr(92) * 2)}" for key, value in properties("console").items()]
    given.write_text("\n".join(lines))
    more = ["--command-config", str(given), "--override", f"ottla.console.login.mechanisms={mechanisms}", *options]
    with running_console(server.bootstrap, *more, log_in=False, listen=listen) as console:
        yield console
