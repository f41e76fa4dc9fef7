"""HTTP: the one way in which this project serves REST and plain pages, on aiohttp.

A service is a list of `Route`s: a method, a path (with `{names}`) and a coroutine from `Request` to `Reply`, or to a
`StreamedReply`; a `SocketRoute` opens a WebSocket, and `static_routes` serves files that were built before. `HttpServer`
opens it on the running event loop and closes it again; whatever goes wrong is answered in JSON with `error_code` and
`message`, and nothing waits longer than its time. `BasicLogins` is who may ask, where a service asks for names and
passwords; `origins` keeps other sites' pages out. `Asker` asks
other services. Importing this package imports aiohttp: import it where HTTP is asked for.
"""

from ottla.http.asking import Asker, AskError, WebAnswer
from ottla.http.basic_logins import BasicLogins
from ottla.http.https import asking_context, serving_context
from ottla.http.instances import LoginsTo, logins_to
from ottla.http.origins import host_of, is_loopback, is_of_another_page
from ottla.http.replies import HttpError, Reply, StreamedReply, json_reply, text_reply
from ottla.http.server import HttpServer, Request, Route, SocketRoute
from ottla.http.sockets import Socket
from ottla.http.static import static_routes

__all__ = [
    "AskError",
    "Asker",
    "BasicLogins",
    "HttpError",
    "HttpServer",
    "LoginsTo",
    "Reply",
    "Request",
    "Route",
    "Socket",
    "SocketRoute",
    "StreamedReply",
    "WebAnswer",
    "asking_context",
    "host_of",
    "is_loopback",
    "is_of_another_page",
    "json_reply",
    "logins_to",
    "serving_context",
    "static_routes",
    "text_reply",
]
