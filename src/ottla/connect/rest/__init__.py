"""Connect's REST interface over any `Herder`, on the package `http`: Kafka's paths, statuses and bodies.

`service_routes` are the routes of one worker. `openapi_document` describes them; it is served as `/openapi.json` and
`/openapi.yaml`. Importing this package imports aiohttp: import it where a worker serves REST.
"""

from ottla.connect.rest.forwarding import Forward, forward_by_http, forwarding
from ottla.connect.rest.openapi import openapi_document
from ottla.connect.rest.service import RestService, rest_server, service_routes
from ottla.connect.rest.settings import Address, RestSettings, https_properties, parse_addresses, rest_settings

__all__ = [
    "Address",
    "Forward",
    "RestService",
    "RestSettings",
    "forward_by_http",
    "forwarding",
    "https_properties",
    "openapi_document",
    "parse_addresses",
    "rest_server",
    "rest_settings",
    "service_routes",
]
