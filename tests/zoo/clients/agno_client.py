"""Agno."""

import asyncio

from agno.tools.mcp import MCPTools
from mcp import StdioServerParameters

from steps import ARGUMENTS, COMMAND, MESSAGE, perform


async def main():
    parameters = StdioServerParameters(command=COMMAND, args=ARGUMENTS)
    async with MCPTools(server_params=parameters, timeout_seconds=60) as tools:

        async def call():
            answer = await tools.functions["echo"].entrypoint(**MESSAGE)
            return getattr(answer, "content", None) or str(answer)

        await perform(tools.functions, call)


asyncio.run(main())
