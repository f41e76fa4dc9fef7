"""Short words for the steps of a case's topology."""

from __future__ import annotations

from typing import Any

__all__ = ["op", "out", "source", "time", "windowed"]

Step = dict[str, Any]


def source(topic: str, value: str = "long", op: str = "stream", /, **more: Any) -> Step:
    """A source, called like its topic; keys are text."""
    return {"op": op, "id": topic, "topic": topic, "key": "string", "value": value, **more}


def op(call: str, of: str, id: str, /, **more: Any) -> Step:
    """A step called on what has the name `of`; its result is called `id`."""
    return {"op": call, "of": of, "id": id, **more}


def out(
    of: str, value: str = "long", *, table: bool = False, topic: str = "out", key: str | None = "string"
) -> list[Step]:
    """The steps that write a stream or a table to a topic; `key` None leaves the serde to the library (windowed keys)."""
    serdes = {"value": value} if key is None else {"key": key, "value": value}
    if table:
        return [op("to_stream", of, f"{of}-stream"), op("to", f"{of}-stream", "", topic=topic, **serdes)]
    return [op("to", of, "", topic=topic, **serdes)]


def time(size: int, advance: int | None = None, grace: int = 0) -> dict[str, Any]:
    """Time windows."""
    return {"kind": "time", "size": size, "grace": grace, **({} if advance is None else {"advance": advance})}


def windowed(of: str, windows: dict[str, Any], id: str = "w", **more: Any) -> Step:
    """Window a grouped stream."""
    return op("windowed_by", of, id, windows=windows, **more)
