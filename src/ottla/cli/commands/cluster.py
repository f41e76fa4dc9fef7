"""`ottla cluster`: a cluster's id and endpoints, as `kafka-cluster` prints them; and clusters on this machine."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from ottla.admin import raise_code
from ottla.base import OttlaError
from ottla.cli.actions import parse_action
from ottla.cli.confirmation import confirmed, destruction_options
from ottla.cli.endpoints import asks_controllers, open_either
from ottla.cli.local.nodes import ACTIONS, node_parsers, run_action, start_parser
from ottla.cli.options import Options, UsageError, check_required, output_option, whole_number
from ottla.cli.output import Answer, print_answer

if TYPE_CHECKING:
    from argparse import Namespace

    from ottla.client import BlockingClient

__all__ = ["main", "parsers"]

BROKERS, CONTROLLERS = 1, 2
"""Kinds of endpoints (KIP-919)."""


def main(argv: list[str]) -> int:
    """Run one action; a failure of the cluster's is one line on standard error."""
    action, args = parse_action("cluster", {each.prog.split()[-1]: each for each in parsers()}, argv)
    if action in ACTIONS:
        return run_action(action, args)
    if action == "unregister":
        check_required(args, "id")
    if action == "api-versions":
        from ottla.cli.commands.broker_api_versions import main as api_versions

        config = ["--command-config", args.command_config] if args.command_config else []
        return api_versions(["--bootstrap-server", args.bootstrap_server, "--output", args.output, *config])
    try:
        asks_controllers(args)
        with open_either(args) as client:
            {"cluster-id": cluster_id, "list-endpoints": list_endpoints, "unregister": unregister}[action](client, args)
    except OttlaError as error:
        print(f"ottla cluster: {error}", file=sys.stderr)
        return 1
    return 0


def parsers() -> list[Options]:
    """Return the actions' parsers."""
    identity = _parser("cluster-id", "Print the cluster's id.")
    endpoints = _parser("list-endpoints", "Print where the brokers, or the controllers, listen.")
    endpoints.add_argument("--include-fenced-brokers", action="store_true", help="fenced brokers too (KIP-1073)")
    unregister = _parser("unregister", "Drop the registration of a broker that will not come back.", output=False)
    unregister.add_argument("-i", "--id", type=whole_number, metavar="ID", help="the broker's id (required)")
    destruction_options(unregister)
    versions = Options("cluster api-versions", "Print which APIs each broker offers (KIP-1220).")
    versions.connection("--config")
    output_option(versions)
    return [identity, endpoints, unregister, versions, start_parser(), *node_parsers()]


def _parser(action: str, description: str, *, output: bool = True) -> Options:
    parser = Options(f"cluster {action}", description)
    parser.connection("--config")
    parser.add_argument("-b", dest="bootstrap_server", metavar="HOST:PORT,…", help="short for --bootstrap-server")
    parser.add_argument("-C", "--bootstrap-controller", metavar="HOST:PORT,…", help="controllers to ask instead")
    if output:
        output_option(parser)
    return parser


def describe(client: BlockingClient, args: Namespace, *, fenced: bool = False) -> Any:
    """Ask for the cluster by the kind of endpoint; raises KafkaError for a broker's port in a controller's place."""
    from ottla.wire.messages.describe_cluster import DescribeClusterRequest

    kind = CONTROLLERS if args.bootstrap_controller is not None else BROKERS
    message = DescribeClusterRequest(endpoint_type=kind, include_fenced_brokers=fenced)
    response = client.request(message, lowest=2 if fenced else 1)
    raise_code(response.error_code, response.error_message)
    return response


def cluster_id(client: BlockingClient, args: Namespace) -> None:
    """Print the id."""
    found = describe(client, args).cluster_id
    if args.output == "text":
        print(f"Cluster ID: {found}" if found else "No cluster ID found. The Kafka version is probably too old.")
    else:
        print_answer(args.output, Answer([{"clusterId": found}], {"CLUSTER-ID": "clusterId"}))


def list_endpoints(client: BlockingClient, args: Namespace) -> None:
    """Print the endpoints, and of brokers whether they are fenced."""
    of_controllers = args.bootstrap_controller is not None
    if of_controllers and args.include_fenced_brokers:
        raise UsageError("The option --include-fenced-brokers is only supported with --bootstrap-server option")
    rows = [
        {
            "id": each.broker_id,
            "host": each.host,
            "port": each.port,
            "rack": each.rack,
            "state": None if of_controllers else "fenced" if each.is_fenced else "unfenced",
            "endpointType": "controller" if of_controllers else "broker",
        }
        for each in describe(client, args, fenced=args.include_fenced_brokers).brokers
    ]
    columns = {"ID": "id", "HOST": "host", "PORT": "port", "RACK": "rack", "STATE": "state"}
    if of_controllers:
        del columns["STATE"]
    columns["ENDPOINT_TYPE"] = "endpointType"
    if args.output != "text":
        print_answer(args.output, Answer(rows, columns))
        return
    host = max([len(str(row["host"])) for row in rows], default=len("HOST"))
    rack = max([10, *(len(str(row["rack"])) for row in rows)])
    widths = [10, max(host, len("HOST")), 10, rack, *([] if of_controllers else [10]), 15]
    print(" ".join(head.ljust(width) for head, width in zip(columns, widths, strict=True)))
    for row in rows:
        cells = ["null" if row[key] is None else str(row[key]) for key in columns.values()]
        print(" ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)))


def unregister(client: BlockingClient, args: Namespace) -> None:
    """Drop a broker's registration."""
    from ottla.wire.messages.unregister_broker import UnregisterBrokerRequest

    if not confirmed(args, "unregister broker", [str(args.id)], asked_for=[str(args.id)]):
        return
    response = client.request(UnregisterBrokerRequest(broker_id=args.id))
    raise_code(response.error_code, response.error_message)
    print(f"Broker {args.id} is no longer registered.")
