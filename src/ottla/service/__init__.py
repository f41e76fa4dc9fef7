"""What every service beside the broker has in common: one declaration per address, one way from declarations to a server.

An `Endpoint` says where an address is, who may ask it, which right it needs, what it takes and what it may cost. A
`Dialect` is what a peer's interface has everywhere: its types of content, the form of its errors, its slashes. `routes_of`
makes the routes, `server_of` the server; nothing outside of `http` and this package makes either, so that no address comes
into being without its declaration. An `Office` says which of several instances does what only one may do.
"""

from ottla.service.cors import NO_CORS, Cors
from ottla.service.endpoints import (
    SERVICE_LIMITS,
    Dialect,
    Endpoint,
    Limits,
    jersey_errors,
    jersey_words,
    json_errors,
    routes_of,
    server_of,
    socket_route,
)
from ottla.service.guards import basic_admission, guard_of, hosts_of, words_of
from ottla.service.office import Membership, Office, Outcome

__all__ = [
    "NO_CORS",
    "SERVICE_LIMITS",
    "Cors",
    "Dialect",
    "Endpoint",
    "Limits",
    "Membership",
    "Office",
    "Outcome",
    "basic_admission",
    "guard_of",
    "hosts_of",
    "jersey_errors",
    "jersey_words",
    "json_errors",
    "routes_of",
    "server_of",
    "socket_route",
    "words_of",
]
