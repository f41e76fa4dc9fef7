"""The doctor's first question: do the addresses lead where they should, those given and those that brokers advertise?

A client asks a bootstrap address for the brokers and then connects to what they advertise. The classic mistake is an
advertised address that only the broker's own machine, or its container, can reach.
"""

from __future__ import annotations

import ipaddress
import socket
import time
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from ottla.base import OttlaError
from ottla.cli.doctor.findings import Finding, fail, ok, warning

if TYPE_CHECKING:
    from ottla.client import Address, BlockingClient, Cluster

__all__ = ["advertised_addresses", "bootstrap_addresses", "is_this_machine"]

CONNECT_SECONDS_MAX = 3.0
ADVERTISE = "set advertised.listeners on the broker to an address that its clients can reach"


class Problem(Enum):
    """Why a connection did not come about."""

    NAME = "its name does not resolve here"
    REFUSED = "which refused the connection: nothing listens there"
    SILENT = f"which did not answer within {CONNECT_SECONDS_MAX:g} s"
    OTHER = "which cannot be reached"


@dataclass(frozen=True, slots=True)
class Reached:
    """What became of one connection."""

    place: str
    """The address as it was given, and what it resolves to."""
    said: str
    problem: Problem | None = None

    def __str__(self) -> str:
        return f"{self.place}, {self.said}"


def bootstrap_addresses(servers: str) -> list[Finding]:
    """Connect to every address that a client would begin with."""
    from ottla.client import parse_bootstrap

    addresses = parse_bootstrap(servers)
    findings = []
    for address in addresses:
        reached = reach(address)
        if reached.problem is None:
            findings.append(ok("bootstrap", str(reached)))
            continue
        if reached.problem is Problem.NAME:
            remedy = "mend the name, or put it into /etc/hosts or DNS"
        elif is_this_machine(address.host):
            remedy = "start a broker here (`ottla server start`), or name another with --bootstrap-server or a context"
        else:
            remedy = "check that the broker runs there, the port, and firewalls between here and there"
        findings.append((fail if len(addresses) == 1 else warning)("bootstrap", str(reached), remedy))
    return findings


def reach(address: Address) -> Reached:
    """Connect once, with bounded patience."""
    try:
        found = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (socket.gaierror, UnicodeError):
        return Reached(str(address), Problem.NAME.value, Problem.NAME)
    numeric = str(found[0][4][0])
    place = str(address) if numeric == address.host else f"{address} ({numeric})"
    begun = time.perf_counter()
    try:
        socket.create_connection((address.host, address.port), CONNECT_SECONDS_MAX).close()
    except ConnectionRefusedError:
        return Reached(place, Problem.REFUSED.value, Problem.REFUSED)
    except TimeoutError:
        return Reached(place, Problem.SILENT.value, Problem.SILENT)
    except OSError as error:
        return Reached(place, f"{Problem.OTHER.value}: {error.strerror or error}", Problem.OTHER)
    return Reached(place, f"which takes connections, in {(time.perf_counter() - begun) * 1000:.1f} ms")


def is_this_machine(host: str) -> bool:
    """True where the name means the machine that asks."""
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
        return any(ipaddress.ip_address(each[4][0]).is_loopback for each in found)
    except (socket.gaierror, UnicodeError, ValueError):
        return False


def advertised_addresses(client: BlockingClient, cluster: Cluster) -> list[Finding]:
    """Connect to every address that a broker advertises, and see that it is a broker of the same cluster."""
    remote = not any(is_this_machine(address.host) for address in client.client.bootstrap)
    findings = []
    for node in sorted(cluster.nodes.values(), key=lambda each: each.node_id):
        reached = reach(node.address)
        findings.append(
            _judged(f"broker {node.node_id} advertises {reached}", node.address, reached.problem, remote=remote)
        )
        if reached.problem is None and (other := _other_cluster(client, node.address, cluster.cluster_id)):
            remedy = f"two clusters meet under one address: {ADVERTISE}"
            findings.append(fail("advertised", f"broker {node.node_id} advertises {node.address}, {other}", remedy))
    if not cluster.nodes:
        findings.append(
            fail(
                "advertised", "the cluster names no broker", "wait until a broker has registered, or look into its log"
            )
        )
    return findings


def _judged(said: str, address: Address, problem: Problem | None, *, remote: bool) -> Finding:
    if address.host in ("0.0.0.0", "::"):
        return fail("advertised", said, f"0.0.0.0 is no address to connect to: {ADVERTISE}")
    if is_this_machine(address.host) and remote:
        remedy = f"that sends every client to its own machine: {ADVERTISE}"
        return fail("advertised", said, remedy)
    if problem is Problem.NAME:
        remedy = f"clients are sent to a name that only the broker's side knows (a container's, often): {ADVERTISE}"
        return fail("advertised", said, remedy)
    if problem is not None:
        remedy = f"clients are sent there after the bootstrap; with port mapping the port may differ: {ADVERTISE}"
        return fail("advertised", said, remedy)
    return ok("advertised", said)


def _other_cluster(asking: BlockingClient, address: Address, cluster_id: str | None) -> str | None:
    """Return what is wrong with what answers at an address, or None where it is the same cluster."""
    from ottla.client import BlockingClient, Limits

    limits = Limits(connect_s=CONNECT_SECONDS_MAX, call_s=CONNECT_SECONDS_MAX, unreachable_s=CONNECT_SECONDS_MAX)
    try:
        network = asking.client.network
        with BlockingClient(str(address), client_id="ottla-doctor", limits=limits, network=network) as client:
            found = client.metadata(()).cluster_id
    except OttlaError as error:
        return f"which does not speak Kafka's protocol: {error}"
    return None if found == cluster_id else f"where another cluster answers ({found}, not {cluster_id})"
