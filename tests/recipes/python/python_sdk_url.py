import asyncio
import sys

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

URL = sys.argv[1]


async def main():
    server = StdioServerParameters(command="mendline", args=["run", URL])
    async with stdio_client(server) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        print("tools:", *[tool.name for tool in tools])
        result = await session.call_tool("lookup", {"key": "milk"})
        print("answer:", result.content[0].text)


asyncio.run(main())
