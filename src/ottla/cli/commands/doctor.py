"""`ottla doctor`: is the cluster reachable from here, healthy, and set up for what it is used for?

It asks and connects, and changes nothing.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from ottla.admin import Worker
from ottla.base import OttlaError
from ottla.cli.contexts import target
from ottla.cli.doctor.findings import Finding, Status, fail, ok, print_findings
from ottla.cli.options import Options, open_client, output_option, properties_file
from ottla.cli.watch import watch_option, watched

if TYPE_CHECKING:
    from argparse import Namespace

__all__ = ["main", "options"]

IMPATIENCE = {
    "request.timeout.ms": "5000",
    "default.api.timeout.ms": "6000",
    "socket.connection.setup.timeout.ms": "3000",
}


def main(argv: list[str]) -> int:
    """Print what was found; 1 where something failed."""
    args = options().parse(argv)
    code = 0

    def look() -> None:
        nonlocal code
        findings = examine(args)
        print_findings(args.output, findings)
        code = 1 if any(each.status is Status.FAIL for each in findings) else 0

    watched(args, look)
    return code


def options() -> Options:
    """Return the parser."""
    parser = Options("doctor", "Examine a cluster from here: addresses, brokers, copies, disks, clocks, limits.")
    parser.connection()
    parser.add_argument(
        "--registry",
        default=os.environ.get("OTTLA_REGISTRY_URL"),
        metavar="URL",
        help="a schema registry to examine, too ($OTTLA_REGISTRY_URL)",
    )
    parser.add_argument(
        "--connect",
        default=os.environ.get("OTTLA_CONNECT_URL"),
        metavar="URL[,URL…]",
        help="Connect workers whose connectors to examine, too: each tells of its own tasks ($OTTLA_CONNECT_URL)",
    )
    output_option(parser)
    watch_option(parser)
    return parser


def examine(args: Namespace) -> list[Finding]:
    """Run the checks in order; those behind a failing connection are left out."""
    from ottla.cli.doctor.addresses import advertised_addresses, bootstrap_addresses
    from ottla.cli.doctor.cluster import cluster_checks
    from ottla.cli.doctor.connect import ANSWER_SECONDS_MAX, worker_checks
    from ottla.cli.doctor.host import host_checks
    from ottla.cli.doctor.schema_registry import instance_checks, topic_checks

    source = target(args.context)
    said_by = source.said_by if source.bootstrap_servers == args.bootstrap_server else "--bootstrap-server"
    findings = [ok("cluster", f"{args.bootstrap_server}, said by {said_by}")]
    findings += bootstrap_addresses(args.bootstrap_server)
    if not any(each.check == "bootstrap" and each.status is Status.OK for each in findings):
        return [*findings, *host_checks(args.bootstrap_server)]
    try:
        properties = IMPATIENCE | properties_file(args.command_config)
        with open_client(args.bootstrap_server, properties, "ottla-doctor") as client:
            cluster = client.metadata()
            addresses = advertised_addresses(client, cluster)
            reachable = all(each.status is not Status.FAIL for each in addresses)
            findings += [*addresses, *cluster_checks(client, cluster, reachable=reachable)]
            findings += topic_checks(client, cluster)
    except OttlaError as error:
        remedy = "look into the broker's log; if it is protected, give --command-config with what clients need"
        findings.append(fail("protocol", f"no answer in Kafka's protocol: {error}", remedy))
    if args.registry:
        login = properties_file(args.command_config)
        registry = Worker(args.registry, login, what="schema registry", answer_s=ANSWER_SECONDS_MAX)
        findings += instance_checks(registry)
    if args.connect:
        properties = properties_file(args.command_config)
        findings += worker_checks(
            [
                Worker(each.strip(), properties, answer_s=ANSWER_SECONDS_MAX)
                for each in args.connect.split(",")
                if each.strip()
            ]
        )
    return [*findings, *host_checks(args.bootstrap_server)]
