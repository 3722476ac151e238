"""FastMCP's client."""

import asyncio

from fastmcp import Client
from fastmcp.client.transports import StdioTransport

from steps import ARGUMENTS, COMMAND, MESSAGE, perform, text_of


async def main():
    async with Client(StdioTransport(command=COMMAND, args=ARGUMENTS)) as client:
        tools = await client.list_tools()

        async def call():
            return text_of((await client.call_tool("echo", MESSAGE)).content)

        await perform([tool.name for tool in tools], call)


asyncio.run(main())
