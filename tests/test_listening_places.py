"""Every place that opens a listening socket says here how that is protected; a new one fails until it does."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src" / "ottla"
OPENERS = frozenset(
    {
        *("create_server", "start_server", "create_unix_server", "start_unix_server", "create_datagram_endpoint"),
        *("HTTPServer", "ThreadingHTTPServer", "TCPServer", "UDPServer", "ThreadingTCPServer", "UnixStreamServer"),
        *("SimpleXMLRPCServer", "TCPSite", "UnixSite", "SockSite", "run_app", "HttpServer", "Door", "ControlServer"),
        *("server_of", "rest_server"),
    }
)
"""What opens a listening socket when it is called, whoever's it is; `bind` and `listen` of a socket do, too."""

PROTECTED = {
    "net/network.py": "the seam: `broker/requests/listeners.py` opens it, by each listener's security protocol",
    "http/door.py": "the seam: `HttpServer` and the control channel open it, with bounds before anybody has asked",
    "http/server.py": "the seam: each service below says who may ask",
    "service/endpoints.py": "the seam: `server_of` gives each service its guard; each service below says who may ask",
    "spark/streams/web.py": "as `web_server.py`, which it opens",
    "broker/monitoring/http_service.py": "no listener by default; HTTPS; `ottla.http.logins.file` for what names topics",
    "connect/rest/service.py": "Kafka's basic-auth extension and HTTPS",
    "spark/connect/mirror_rest.py": "as Connect's REST; the internal part only for other workers",
    "spark/connect/worker_metrics.py": "no listener by default; HTTPS; open in clear where the operator names an address",
    "spark/connect/worker.py": "a probe that finds a free port and closes it",
    "spark/connect/runner.py": "the control channel: TLS by a key of the process, each task proves a secret of its own",
    "spark/continuous/service.py": "the control channel of hosts: as that of tasks",
    "spark/connect/control.py": "the control channel: a proof of fixed length first, nothing parsed before it",
    "spark/fork_server.py": "a Unix socket in a folder that this user alone may enter",
    "spark/streams/web_server.py": "no listener by default; HTTPS and logins",
    "spark/streams/web_door.py": "as `web_server.py`, which it opens",
    "registry/rest/instance.py": "logins, tokens, certificates and ACLs; HTTPS",
    "sql_server/rest/instance.py": "logins; HTTPS",
    "console/instance.py": "loopback or TLS; logins by the cluster's own",
    "cli/local/ports.py": "a probe that finds a free port and closes it",
    "testing/proxy.py": "loopback, for a test's clients, who reach nothing but the test's broker through it",
}
"""File -> how what listens there is protected, and where somebody opens it to others."""


def _opens(call: ast.Call) -> bool:
    function = call.func
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    if name in OPENERS:
        return True
    # `socket.bind(address)`: of one argument that is none of this project's own listeners
    is_socket = isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name)
    return name == "bind" and is_socket and len(call.args) == 1


def _places() -> set[str]:
    return {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if any(isinstance(node, ast.Call) and _opens(node) for node in ast.walk(ast.parse(path.read_text())))
    }


def test_every_place_that_listens_says_how_it_is_protected() -> None:
    missing = _places() - set(PROTECTED)
    assert not missing, (
        f"say in PROTECTED how what listens there is protected, and have it said at its start: {missing}"
    )
    assert not set(PROTECTED) - _places(), "nothing listens there any more"
