import asyncio

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

NOTES = StdioServerParameters(command="mendline", args=["run", "--", "notes-server"])


async def main():
    async with stdio_client(NOTES) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        tools = (await session.list_tools()).tools
        print("tools:", *[tool.name for tool in tools])
        result = await session.call_tool("lookup", {"key": "milk"})
        print("answer:", result.content[0].text)


asyncio.run(main())
