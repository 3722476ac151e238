import asyncio

from fastmcp import Client

CONFIG = {"mcpServers": {"notes": {"command": "mendline", "args": ["run", "--", "notes-server"]}}}


async def main():
    async with Client(CONFIG) as client:
        print("tools:", *[tool.name for tool in await client.list_tools()])
        result = await client.call_tool("lookup", {"key": "milk"})
        print("answer:", result.content[0].text)


asyncio.run(main())
