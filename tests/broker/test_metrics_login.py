"""With `ottla.http.logins.file` metrics are for those logins alone; probes need none and name no topic."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from pathlib import Path

import aiohttp
import pytest

from ottla.base import ConfigError
from tests.broker.node_client import running_node

HTTP = "ottla.http.listeners=http://127.0.0.1:0"
TOPIC = "nobodys-business"


def test_metrics_and_what_is_unwell_are_told_to_logins_alone_and_probes_need_none(tmp_path: Path) -> None:
    logins = tmp_path / "logins"
    logins.write_text("prometheus=s3cret\n")

    async def test() -> None:
        more = (HTTP, f"ottla.http.logins.file={logins}")
        async with running_node(tmp_path / "data", *more) as client, aiohttp.ClientSession() as session:
            await client.create(TOPIC)
            base = client.node.http_listeners[0]

            async def asked(path: str, login: str | None = None) -> tuple[int, str]:
                headers = {} if login is None else {"Authorization": f"Basic {b64encode(login.encode()).decode()}"}
                async with session.get(f"{base}{path}", headers=headers) as answer:
                    return answer.status, await answer.text()

            for path in ("/metrics", "/healthz"):
                for login in (None, "prometheus:wrong", "other:s3cret"):
                    status, text = await asked(path, login)
                    assert (status, TOPIC in text) == (401, False)
                assert (await asked(path, "prometheus:s3cret"))[0] == 200
            assert TOPIC in (await asked("/metrics", "prometheus:s3cret"))[1]
            for path in ("/livez", "/readyz"):
                status, text = await asked(path)
                assert (status, TOPIC in text) == (200, False)

    asyncio.run(test())


@pytest.mark.parametrize("text", [None, "", "prometheus=\n", "prometheus=s3cret\\uZZ9\n"])
def test_a_file_of_logins_that_lets_nobody_in_is_refused(tmp_path: Path, text: str | None) -> None:
    logins = tmp_path / "logins"
    if text is not None:
        logins.write_text(text)

    async def test() -> None:
        with pytest.raises(ConfigError, match=r"ottla\.http\.logins\.file") as caught:
            async with running_node(tmp_path / "data", HTTP, f"ottla.http.logins.file={logins}"):
                raise AssertionError
        assert "s3cret" not in str(caught.value)

    asyncio.run(test())
