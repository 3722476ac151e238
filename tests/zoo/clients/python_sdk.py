"""The official Python SDK, 1.x and 2.x."""

import asyncio

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

from steps import ARGUMENTS, COMMAND, MESSAGE, perform, text_of


async def main():
    async with stdio_client(StdioServerParameters(command=COMMAND, args=ARGUMENTS)) as (read, write):
        async with ClientSession(read, write) as session:
            await session.initialize()
            tools = (await session.list_tools()).tools

            async def call():
                return text_of((await session.call_tool("echo", MESSAGE)).content)

            await perform([tool.name for tool in tools], call)


asyncio.run(main())
