"""Pydantic AI."""

import asyncio

from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset

from steps import ARGUMENTS, COMMAND, MESSAGE, perform


async def main():
    async with MCPToolset(StdioTransport(command=COMMAND, args=ARGUMENTS)) as server:
        tools = await server.list_tools()

        async def call():
            return str(await server.direct_call_tool("echo", MESSAGE))

        await perform([tool.name for tool in tools], call)


asyncio.run(main())
