"""Connects to a program that systemd starts for each connection of a socket, and initializes an MCP session.

Usage: socket_client.py SOCKET PROGRAM
"""

import json
import os
import socket
import subprocess
import sys
import time

path, program = sys.argv[1:]
command = [program, "run", "--log-level", "error", "--", program, "demo-server"]
listener = subprocess.Popen(
    ["systemd-socket-activate", "--accept", "--inetd", "--listen", path, *command], stderr=subprocess.DEVNULL
)
try:
    deadline = time.monotonic() + 20
    while not os.path.exists(path):
        assert listener.poll() is None and time.monotonic() < deadline, "nothing listens"
        time.sleep(0.01)
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(20)
        client.connect(path)
        params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "client", "version": "1"}}
        request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
        client.sendall(json.dumps(request).encode() + b"\n")
        answer = json.loads(client.makefile().readline())
    assert answer["result"]["serverInfo"]["name"] == "demo-server", answer
finally:
    listener.terminate()
    listener.wait()
