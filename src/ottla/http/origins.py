"""Whom a request asks, and whose page sent it: what keeps other sites' pages from a service on this machine.

A browser lets any page send requests to `127.0.0.1`, and a foreign name may lead there (DNS rebinding). It says in `Host`
under which name it asks and, where a page sent the request, in `Origin` (RFC 6454) which one; a page can forge neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from ipaddress import ip_address

__all__ = ["host_of", "is_address", "is_loopback", "is_of_another_page", "is_of_browser"]


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address, or the name `localhost`."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_address(host: str) -> bool:
    """Return whether a host is an IP address. No page of a foreign name can ask under one."""
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def host_of(headers: Mapping[str, str]) -> str:
    """Return the name or address in `Host`, without port and brackets, in small letters; empty where there is none.

    What has no number for its port is returned whole, and is nobody's name.
    """
    text = headers.get("Host", "")
    if text.startswith("["):
        name, _, rest = text[1:].partition("]")
        port = rest.removeprefix(":")
    else:
        name, _, port = text.partition(":")
    return (name if not port or port.isdigit() else text).lower()


def is_of_another_page(headers: Mapping[str, str]) -> bool:
    """Return whether a request comes from a page of another address; who is no browser sends no `Origin`."""
    origin = headers.get("Origin")
    if origin is None:
        return False
    place = origin.partition("://")[2]  # nothing where it is `null`, as a page of a file says
    return not place or place != headers.get("Host")


def is_of_browser(headers: Mapping[str, str]) -> bool:
    """Return whether a browser sent a request: it adds headers that a page can neither set nor leave out."""
    return "Origin" in headers or "Sec-Fetch-Site" in headers
