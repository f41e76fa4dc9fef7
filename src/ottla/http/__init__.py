"""HTTP: the one way in which this project serves REST and plain pages, on aiohttp.

A service is a list of `Route`s: a method, a path (with `{names}`) and a coroutine from `Request` to `Reply`, or to a
`StreamedReply`; a `SocketRoute` opens a WebSocket, and `static_routes` serves files that were built before. `HttpServer`
opens it on the running event loop and closes it again; whatever goes wrong is answered in JSON with `error_code` and
`message`, and nothing waits longer than its time. Each route says who may ask it, and the server's `Guard` holds that:
names, pages, logins and types of bodies (`guard`). `BasicLogins` are names and passwords. `Asker` asks other
services. Importing this package imports aiohttp: import it where HTTP is asked for.
"""

from ottla.http.asking import Asker, AskError, WebAnswer
from ottla.http.basic_logins import BasicLogins, logins_of_file
from ottla.http.door import Door
from ottla.http.guard import FORM, HOSTS_KEY, JSON, BodyTypeError, Guard, Who, everybody, how_open, known_hosts
from ottla.http.https import asking_context, serving_context
from ottla.http.instances import LoginsTo, logins_to
from ottla.http.origins import host_of, is_loopback, is_of_another_page
from ottla.http.replies import HttpError, Reply, StreamedReply, json_reply, text_reply
from ottla.http.server import HttpServer, Request, RequestKey, Route, SocketRoute, line_of, while_there
from ottla.http.sockets import Socket
from ottla.http.static import static_routes

__all__ = [
    "FORM",
    "HOSTS_KEY",
    "JSON",
    "AskError",
    "Asker",
    "BasicLogins",
    "BodyTypeError",
    "Door",
    "Guard",
    "HttpError",
    "HttpServer",
    "LoginsTo",
    "Reply",
    "Request",
    "RequestKey",
    "Route",
    "Socket",
    "SocketRoute",
    "StreamedReply",
    "WebAnswer",
    "Who",
    "asking_context",
    "everybody",
    "host_of",
    "how_open",
    "is_loopback",
    "is_of_another_page",
    "json_reply",
    "known_hosts",
    "line_of",
    "logins_of_file",
    "logins_to",
    "serving_context",
    "static_routes",
    "text_reply",
    "while_there",
]
