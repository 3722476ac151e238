"""Connects to a program that systemd starts for each connection of a socket, and initializes an MCP session.

Usage: socket_client.py PROGRAM
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
import time

# A slow machine needs longer than a fast one, and a broken program must not wait for ever.
PATIENCE = 120

program = os.path.abspath(sys.argv[1])
command = [program, "run", "--log-level", "error", "--", program, "demo-server"]


def connected(path, listener):
    """Returns a connection. The file of the socket exists a moment before connections are accepted."""
    deadline = time.monotonic() + PATIENCE
    while True:
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(PATIENCE)
        try:
            client.connect(path)
            return client
        except (FileNotFoundError, ConnectionRefusedError):
            client.close()
            assert listener.poll() is None, f"systemd-socket-activate ended: {listener.returncode}"
            assert time.monotonic() < deadline, "nothing listens"
            time.sleep(0.01)


# The path of a socket has at most 107 bytes, so it is not in the folder of the repository.
with tempfile.TemporaryDirectory(prefix="mendline-") as folder:
    path = os.path.join(folder, "socket")
    line = ["systemd-socket-activate", "--accept", "--inetd", "--listen", path, *command]
    listener = subprocess.Popen(line, stderr=subprocess.DEVNULL)
    try:
        with connected(path, listener) as client:
            info = {"name": "client", "version": "1"}
            params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": info}
            request = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}
            client.sendall(json.dumps(request).encode() + b"\n")
            answer = json.loads(client.makefile().readline())
        assert answer["result"]["serverInfo"]["name"] == "demo-server", answer
    finally:
        listener.terminate()
        listener.wait()
