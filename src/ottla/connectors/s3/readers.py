"""Objects read back: one is fetched as a whole, to memory or a temporary file, and its values come one after another."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import chain, islice
from typing import IO, Any

from ottla.connect import ConnectError, DataError, Schema, converters, data
from ottla.connectors.s3.client import expecting
from ottla.connectors.storage import format_name, read_avro, read_parquet

__all__ = ["GoneError", "fetched", "pieces", "separator_of", "values_of"]

MEMORY_BYTES_MAX = 32 << 20
PIECE_BYTES = 1 << 20


class GoneError(ConnectError):
    """An object that was listed is not there any more."""


def fetched(client: Any, bucket: str, key: str) -> IO[bytes]:
    """Return an object's bytes as a file, uncompressed where its name ends in `.gz`.

    Raises GoneError, ConnectError, RetriableError.
    """
    file = tempfile.SpooledTemporaryFile(MEMORY_BYTES_MAX)  # noqa: SIM115  the caller closes it

    def fetch() -> None:
        file.seek(0)
        file.truncate()
        shutil.copyfileobj(client.get_object(Bucket=bucket, Key=key)["Body"], file, PIECE_BYTES)

    try:
        expecting(lambda: f"Cannot read s3://{bucket}/{key}", fetch)
    except ConnectError as error:
        cause: Any = error.__cause__
        if getattr(cause, "response", {}).get("Error", {}).get("Code") in ("NoSuchKey", "404"):
            raise GoneError(str(error)) from cause
        raise
    file.seek(0)
    return gzip.GzipFile(fileobj=file, mode="rb") if key.endswith(".gz") else file  # type: ignore[return-value]


def values_of(
    file: IO[bytes], form: str, settings: Mapping[str, Any], *, begin: int = 0
) -> Iterator[tuple[Schema | None, Any]]:
    """Yield the values of a file of a format from a place on, each with its schema; raises DataError for another format."""
    name = format_name(form)
    if name in ("Avro", "Parquet"):
        schema, values = read_avro(file, settings) if name == "Avro" else read_parquet(file)
        for value in islice(values, begin, None):
            yield schema, value
    elif name == "Json":
        converter = converters.JsonConverter()
        converter.configure({"schemas.enable": "false"}, is_key=False)
        lines = (line for line in chain.from_iterable(pieces(file, b"\n")) if line.strip())
        for line in islice(lines, begin, None):
            yield converter.to_connect("", line)
    else:
        convert: Callable[[bytes], Any] = _text if name == "String" else bytes
        schema = data.STRING if name == "String" else data.BYTES
        for line in islice(chain.from_iterable(pieces(file, separator_of(settings))), begin, None):
            yield schema, convert(line)


def separator_of(settings: Mapping[str, Any]) -> bytes:
    """Return what stands behind each record of bytes or text."""
    separator: str | None = settings.get("format.bytearray.separator")
    return ("\n" if separator is None else separator).encode()


def _text(line: bytes) -> str:
    try:
        return line.decode()
    except UnicodeDecodeError as error:
        raise DataError(f"This is no UTF-8 text: {error}") from error


def pieces(file: IO[bytes], separator: bytes) -> Iterator[list[bytes]]:
    """Yield the records of a file, many at once; without a separator the whole file is one."""
    if not separator:
        yield [file.read()]
        return
    rest = b""
    try:
        while piece := file.read(PIECE_BYTES):
            *whole, rest = (rest + piece).split(separator)
            if whole:
                yield whole
    except (OSError, EOFError) as error:
        raise DataError(f"This is not compressed by gzip: {error}") from error
    if rest:
        yield [rest]
