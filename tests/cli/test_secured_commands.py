"""The commands on a broker that speaks TLS only and wants certificates, by the file that Kafka's tools take."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cli.conftest import Run
from tests.security.authority import authority, signed
from tests.security.tls_files import client_properties, listener_overrides
from tests.server import running_server

CA = authority()


@pytest.fixture(scope="module")
def how(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The options that every command takes."""
    folder = tmp_path_factory.mktemp("tls")
    overrides = listener_overrides(folder, signed(CA, "broker"), CA, "ssl.client.auth=required")
    config = folder / "client.properties"
    properties = client_properties(folder, CA, signed(CA, "client", hosts=()))
    config.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))
    with running_server(folder, overrides=overrides) as server:
        yield f"--bootstrap-server {server.bootstrap} --command-config {config}"


def test_records_are_written_and_read(run: Run, how: str) -> None:
    assert run(f"topics {how} --create --topic t").out == "Created topic t.\n"
    assert run(f"console-producer {how} --topic t", stdin="one\ntwo\n").code == 0
    found = run(f"console-consumer {how} --topic t --from-beginning --max-messages 2 --timeout-ms 60000")
    assert (found.code, found.out) == (0, "one\ntwo\n")


def test_the_doctor_is_let_in(run: Run, how: str) -> None:
    found = run(f"doctor {how}")
    assert found.code == 0, found.out + found.err


def test_without_the_file_the_error_names_tls(run: Run, how: str) -> None:
    found = run(f"topics {how.partition(' --command-config')[0]} --list")
    assert found.code == 1 and "does it speak TLS" in found.err + found.out


def test_a_store_that_is_missing_is_one_line(run: Run, how: str) -> None:
    bootstrap = how.partition(" --command-config")[0]
    pairs = "--command-property security.protocol=SSL --command-property ssl.truststore.location=/nowhere"
    found = run(f"console-producer {bootstrap} --topic t {pairs}", stdin="x\n")
    assert found.code == 1 and "/nowhere: No such file or directory" in found.err and found.err.count("\n") == 1
