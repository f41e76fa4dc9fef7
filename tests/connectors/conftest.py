"""One S3 server for all tests of connectors that need it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.connectors.s3_server import S3Server, running_s3


@pytest.fixture(scope="session")
def s3() -> Iterator[S3Server]:
    with running_s3() as server:
        yield server
