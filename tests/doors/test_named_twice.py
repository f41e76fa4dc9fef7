"""Whatever a request names, it may name twice, and the second time say something else of it: no API fails by that.

Requests are made from the messages' own fields: each array of each API has an element twice, and once with one field of it
changed. An answer of a defined shape comes, without an error of ours, and what was asked about works afterwards.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ottla.background import failure_counts
from ottla.base import ErrorCode, WireError
from ottla.broker.requests.handler import Handler
from ottla.broker.requests.handlers import all_handlers
from ottla.wire import APIS, ApiKey, Message
from tests.broker.access_requests import hidden_world, requests_about
from tests.broker.askers import ADMIN, AUTHORIZER, Asker
from tests.broker.node_client import start_node
from tests.cost.requests import GIVEN

SETTINGS = (*AUTHORIZER, "offsets.topic.num.partitions=1", "transaction.state.log.num.partitions=1")
ANSWER_S_MAX = 20
LAST = (
    *(ApiKey.LEAVE_GROUP, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS, ApiKey.DELETE_RECORDS, ApiKey.DELETE_ACLS),
    ApiKey.DELETE_TOPICS,
)
"""What takes away that others ask for comes after them."""
STOPS = frozenset({ApiKey.UNREGISTER_BROKER})
"""What may end the only broker comes last of all."""
Wrong = dict[str, list[str]]


def has(field: Any, version: int) -> bool:
    return field.versions is not None and field.versions[0] <= version <= field.versions[1]


def given(message: Message, version: int, values: Any) -> Message:
    """Return a message with these values in every field of the name, its parts' too."""
    made: dict[str, Any] = {}
    for field in message.FIELDS:
        held = getattr(message, field.name)
        if not has(field, version):
            continue
        if field.name in values:
            made[field.name] = values[field.name]
        elif field.kind == "[]struct" and held:
            made[field.name] = [given(each, version, values) for each in held]
        elif field.kind == "struct" and held is not None:
            made[field.name] = given(held, version, values)
    return message.replace(**made)


def others(value: Any, kind: str) -> list[Any]:
    """Return what else a field may say."""
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        more = value + 1 if value < 100 else value - 1
        return [more, -1] if kind.startswith("int") and value != -1 else [more]
    if isinstance(value, float):
        return [value + 1]
    if kind == "string":
        return ["another", ""]
    if kind in ("bytes", "records"):
        return [b"another", b""]
    if kind == "uuid":
        return [bytes(range(16))]
    return [[]] if kind.startswith("[]") and value else []


def changed(element: Any, version: int) -> Iterator[tuple[str, Any]]:
    """Yield an element with one field changed each time, its parts' too."""
    if not isinstance(element, Message):
        return
    for field in element.FIELDS:
        value = getattr(element, field.name)
        if not has(field, version):
            continue
        for other in others(value, field.kind):
            yield field.name, element.replace(**{field.name: other})
        if field.kind == "struct" and value is not None:
            for name, part in changed(value, version):
                yield f"{field.name}.{name}", element.replace(**{field.name: part})
        if field.kind == "[]struct" and value:
            for name, part in changed(value[0], version):
                yield f"{field.name}.{name}", element.replace(**{field.name: [part, *value[1:]]})


def doubled(message: Message, version: int, path: str = "") -> Iterator[tuple[str, Message]]:
    """Yield a message with an element of each of its arrays twice, and once with what conflicts."""
    for field in message.FIELDS:
        value = getattr(message, field.name)
        if not has(field, version):
            continue
        name = f"{path}{field.name}"
        if field.kind.startswith("[]") and value:
            first = value[0]
            yield f"{name} twice", message.replace(**{field.name: [first, first]})
            for what, other in changed(first, version):
                yield f"{name} twice, {what} changed", message.replace(**{field.name: [first, other]})
                yield f"{name} twice, {what} changed before", message.replace(**{field.name: [other, first, other]})
        if field.kind == "[]struct" and value:
            for each, inner in doubled(value[0], version, f"{name}."):
                yield each, message.replace(**{field.name: [inner, *value[1:]]})
        elif field.kind == "struct" and value is not None:
            for each, inner in doubled(value, version, f"{name}."):
                yield each, message.replace(**{field.name: inner})


def rank(handler: Handler[Any]) -> tuple[int, int]:
    key = ApiKey(handler.api_key)
    return (100 if key in STOPS else LAST.index(key) + 1 if key in LAST else 0, handler.api_key)


def codes(answer: Any) -> Iterator[int]:
    """Yield every error code of an answer."""
    if isinstance(answer, Message):
        for field in answer.FIELDS:
            value = getattr(answer, field.name)
            if field.name == "error_code" and isinstance(value, int):
                yield value
            else:
                yield from codes(value)
    elif isinstance(answer, list | tuple):
        for each in answer:
            yield from codes(each)


class Said(logging.Handler):
    """What is logged with a stack, or as an error."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


async def ask_all(folder: Path) -> Wrong:
    """Ask a broker everything; returns what went wrong, by API."""
    node, wrong, said = await start_node(folder, *SETTINGS), {}, Said()  # type: ignore[var-annotated]
    logging.getLogger("ottla").addHandler(said)
    try:
        admin = Asker(node, ADMIN)
        names = await hidden_world(admin.ask, lambda: asyncio.sleep(0.01))
        for handler in sorted(all_handlers(), key=rank):
            asker = Asker(node, ADMIN, is_controller="broker" not in APIS[handler.api_key].listeners)
            for version in sorted({handler.versions[0], handler.versions[1]}):
                for values in GIVEN.get(ApiKey(handler.api_key), ({},)):
                    for base in requests_about(handler, names, version):
                        for name, request in doubled(given(base, version, values), version):
                            found = await one(asker, request, version, said)
                            if found:
                                wrong.setdefault(ApiKey(handler.api_key).name, []).append(f"v{version} {name}: {found}")
    finally:
        logging.getLogger("ottla").removeHandler(said)
        await node.stop()
    await (await start_node(folder, *SETTINGS)).stop()  # what was written can be read again
    return wrong


async def one(asker: Asker, request: Message, version: int, said: Said) -> str:
    """Ask once; returns what went wrong."""
    before = failure_counts()
    said.lines.clear()
    try:
        answer = await asyncio.wait_for(asker.ask(request, version), ANSWER_S_MAX)
    except WireError:
        return ""  # an API that has no place for an error closes the connection; or the version has no such request
    except TimeoutError:
        return "no answer"
    except Exception as error:  # whatever it is, it is what is looked for
        return repr(error)
    if failure_counts() != before or any("Traceback" in each for each in said.lines):
        return "\n".join(said.lines)[-3000:] or "a failure"
    return "-1" if int(ErrorCode.UNKNOWN_SERVER_ERROR) in codes(answer) else ""


@pytest.fixture(scope="module")
def wrong(tmp_path_factory: pytest.TempPathFactory) -> Wrong:
    return asyncio.run(ask_all(tmp_path_factory.mktemp("twice")))


@pytest.mark.parametrize("api", [ApiKey(each.api_key).name for each in all_handlers()])
def test_what_is_named_twice_has_an_answer_and_no_error_of_ours(api: str, wrong: Wrong) -> None:
    assert not wrong.get(api), "\n".join(wrong[api])
