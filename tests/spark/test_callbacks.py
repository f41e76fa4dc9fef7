"""py4j's callback server answers in a process that has thousands of files open."""

from __future__ import annotations

import os
import resource
import socket
from contextlib import ExitStack

import pytest
from py4j.java_gateway import CallbackServerParameters, GatewayParameters, JavaGateway

from ottla.spark.private_api.callbacks import answer_callbacks_by_poll

MORE_THAN_SELECT_KNOWS = 1100


def test_a_callback_is_taken_at_a_descriptor_that_select_does_not_know() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < 2 * MORE_THAN_SELECT_KNOWS:
        pytest.skip(f"a process may open {hard} files here (ulimit -Hn)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 4 * MORE_THAN_SELECT_KNOWS)), hard))
    answer_callbacks_by_poll()
    with ExitStack() as opened:
        for _ in range(MORE_THAN_SELECT_KNOWS):
            opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        gateway = JavaGateway(gateway_parameters=GatewayParameters(eager_load=False))
        gateway.start_callback_server(CallbackServerParameters(port=0, daemonize=True, daemonize_connections=True))
        server = gateway.get_callback_server()
        opened.callback(server.shutdown)
        assert server.server_socket.fileno() > 1023
        server.server_socket.listen()  # its thread does so too, at some time
        with socket.create_connection(("127.0.0.1", server.get_listening_port()), timeout=30) as connection:
            connection.sendall(b"A\nwhatever\ne\n")  # a word that is no command: it is answered all the same
            assert connection.recv(10)
