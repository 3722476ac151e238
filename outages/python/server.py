"""A server on the official `mcp` package behind a balancer, with a ledger of what it ran.

    server.py PORT LEDGER

It serves Streamable HTTP with sessions at `/mcp` of 127.0.0.1 and prints `listening on PORT`. `lookup` only reads,
`create_note` writes. Both take a `key`, which the ledger names once per execution, and `until`, a file that must exist
before they answer.
"""

import os
import socket
import sys

import anyio
import mcp_types as types
import uvicorn
from mcp.server.lowlevel import Server

PORT, LEDGER = int(sys.argv[1]), sys.argv[2]
SCHEMA = {"type": "object", "properties": {"key": {"type": "string"}, "until": {"type": "string"}}}


def tool(name, reads):
    hints = types.ToolAnnotations(read_only_hint=reads)
    return types.Tool(name=name, description=name, input_schema=SCHEMA, annotations=hints)


async def list_tools(_ctx, _params):
    return types.ListToolsResult(tools=[tool("lookup", True), tool("create_note", False)])


async def call(_ctx, params):
    arguments = params.arguments or {}
    with open(LEDGER, "a", encoding="utf-8") as ledger:
        ledger.write(f"executed {arguments['key']}\n")
    until = arguments.get("until")
    while until and not os.path.exists(until):
        await anyio.sleep(0.01)
    done = types.TextContent(type="text", text=f"{arguments['key']} is done")
    return types.CallToolResult(content=[done])


async def main():
    server = Server("outages-python", version="1", on_list_tools=list_tools, on_call_tool=call)
    with socket.create_server(("127.0.0.1", PORT)) as listener:
        print("listening on", PORT, flush=True)
        await uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_level="warning")).serve([listener])


anyio.run(main)
