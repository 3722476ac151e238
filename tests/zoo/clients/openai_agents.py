"""OpenAI's Agents SDK."""

import asyncio

from agents.mcp import MCPServerStdio

from steps import ARGUMENTS, COMMAND, MESSAGE, perform, text_of


async def main():
    parameters = {"command": COMMAND, "args": ARGUMENTS}
    async with MCPServerStdio(params=parameters, client_session_timeout_seconds=60) as server:
        tools = await server.list_tools()

        async def call():
            return text_of((await server.call_tool("echo", MESSAGE)).content)

        await perform([tool.name for tool in tools], call)


asyncio.run(main())
