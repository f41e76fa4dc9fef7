"""The one place where an error becomes an API's own response."""

from __future__ import annotations

import logging
from typing import Any

from ottla.background import count_failure
from ottla.base import ErrorCode, KafkaError, StorageError, WireError
from ottla.broker.requests.handler import Handler
from ottla.wire import APIS, Message

__all__ = ["error_answer"]

log = logging.getLogger(__name__)


def error_answer(handler: Handler[Any], request: Any, error: Exception, version: int) -> Message:
    """Return the API's own response that says what went wrong; raises WireError where none can.

    What is neither the peer's mistake nor the disk's is ours: it is logged with its stack.
    """
    spec = APIS[handler.api_key]
    if isinstance(error, WireError):
        raise error
    if not isinstance(error, KafkaError):
        log.error("%s failed", spec.name, exc_info=error)
        code = ErrorCode.KAFKA_STORAGE_ERROR if isinstance(error, StorageError) else ErrorCode.UNKNOWN_SERVER_ERROR
        if code is ErrorCode.UNKNOWN_SERVER_ERROR:
            count_failure(f"requests {spec.name}")
        error = KafkaError(code, _text_of(code))
    if handler.error_response is not None:
        own: Message = handler.error_response(request, error)
        return _without_later_code(own, version)
    response: Any = spec.response
    names = {field.name for field in response.FIELDS}
    if "error_code" not in names:
        raise WireError(f"{spec.name} was refused: {error.message}")
    text = {"error_message": error.message} if "error_message" in names else {}
    answer: Message = response(error_code=int(error.code), **text)
    return answer


def _without_later_code(answer: Message, version: int) -> Message:
    """Return an answer without the error of the whole where the version has no such field: its parts say it then."""
    for field in answer.FIELDS:
        if field.name == "error_code" and not field.ignorable and field.versions is not None:
            return answer if field.versions[0] <= version <= field.versions[1] else answer.replace(error_code=0)
    return answer


def _text_of(code: ErrorCode) -> str:
    if code is ErrorCode.KAFKA_STORAGE_ERROR:
        return "Disk error when trying to access log file on the disk."
    return "The server experienced an unexpected error when processing the request."
