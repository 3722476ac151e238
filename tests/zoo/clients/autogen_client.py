"""AutoGen."""

import asyncio

from autogen_core import CancellationToken
from autogen_ext.tools.mcp import StdioServerParams, create_mcp_server_session, mcp_server_tools

from steps import ARGUMENTS, COMMAND, MESSAGE, perform


async def main():
    parameters = StdioServerParams(command=COMMAND, args=ARGUMENTS, read_timeout_seconds=60)
    async with create_mcp_server_session(parameters) as session:
        await session.initialize()
        tools = {tool.name: tool for tool in await mcp_server_tools(parameters, session=session)}

        async def call():
            echo = tools["echo"]
            return echo.return_value_as_string(await echo.run_json(MESSAGE, CancellationToken()))

        await perform(tools, call)


asyncio.run(main())
