"""mcp-use."""

import asyncio

from mcp_use import MCPClient

from steps import ARGUMENTS, COMMAND, MESSAGE, perform, text_of


async def main():
    client = MCPClient.from_dict({"mcpServers": {"server": {"command": COMMAND, "args": ARGUMENTS}}})
    session = await client.create_session("server")
    tools = await session.list_tools()

    async def call():
        return text_of((await session.call_tool("echo", MESSAGE)).content)

    await perform([tool.name for tool in tools], call)
    await client.close_all_sessions()


asyncio.run(main())
