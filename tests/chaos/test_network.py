"""Cutting one direction between two namespaces: what is sent that way is lost, and nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.chaos.network import missing

SCRIPT = """
import subprocess, sys
from tests.chaos.network import Network, enter_private_network

ECHO = '''
import socket, sys
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind(("0.0.0.0", 7000))
print("up", flush=True)
while True:
    data, sender = one.recvfrom(100)
    print(data.decode(), flush=True)
'''
SEND = '''
import socket, sys
socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(sys.argv[2].encode(), (sys.argv[1], 7000))
'''

enter_private_network()
with Network(2) as network:
    servers = {
        node: subprocess.Popen([*network.within(node), sys.executable, "-c", ECHO], stdout=-1, text=True) for node in (1, 2)
    }

    def send(sender, receiver, text):
        subprocess.run([*network.within(sender), sys.executable, "-c", SEND, network.host(receiver), text], check=True)

    for server in servers.values():
        assert server.stdout.readline() == "up\\n"
    send(1, 2, "one to two")
    assert servers[2].stdout.readline() == "one to two\\n"
    network.cut(1, 2)
    send(1, 2, "lost")
    send(2, 1, "two to one")
    assert servers[1].stdout.readline() == "two to one\\n"
    network.heal()
    send(1, 2, "again")
    assert servers[2].stdout.readline() == "again\\n"
    for server in servers.values():
        server.kill()
print("well")
"""


@pytest.mark.timeout(60)
def test_one_direction_is_cut_and_healed() -> None:
    if reason := missing():
        pytest.skip(reason)
    found = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=50, check=False)
    assert found.stdout == "well\n", found.stderr
