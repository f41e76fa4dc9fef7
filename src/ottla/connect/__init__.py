"""Kafka Connect: the plugin API in Python, converters, transformations, and what the workers decide.

Plugins are written against this face. Its packages `data`, `converters`, `transforms` and `storage` are pure; tasks are
run by the room `spark`, and the REST interface is served through the room `http`.
"""

from ottla.connect.errors import ConnectError, DataError, RetriableError

__all__ = ["ConnectError", "DataError", "RetriableError"]
