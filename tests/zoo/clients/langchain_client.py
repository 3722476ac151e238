"""LangChain's adapters for Python."""

import asyncio

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

from steps import ARGUMENTS, COMMAND, MESSAGE, perform, text_of


async def main():
    client = MultiServerMCPClient({"server": {"transport": "stdio", "command": COMMAND, "args": ARGUMENTS}})
    async with client.session("server") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}

        async def call():
            answer = await tools["echo"].ainvoke(MESSAGE)
            return answer if isinstance(answer, str) else text_of(answer)

        await perform(tools, call)


asyncio.run(main())
