"""The MCP client of the agents SDK by AWS."""

import asyncio
import uuid

from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client
from strands.tools.mcp import MCPClient

from steps import ARGUMENTS, COMMAND, MESSAGE, perform, text_of


async def main():
    with MCPClient(lambda: stdio_client(StdioServerParameters(command=COMMAND, args=ARGUMENTS))) as client:
        tools = client.list_tools_sync()

        async def call():
            answer = await client.call_tool_async(tool_use_id=uuid.uuid4().hex, name="echo", arguments=MESSAGE)
            return text_of(answer["content"])

        await perform([tool.tool_name for tool in tools], call)


asyncio.run(main())
