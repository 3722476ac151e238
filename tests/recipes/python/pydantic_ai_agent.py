import asyncio

from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.test import TestModel

NOTES = MCPToolset(StdioTransport(command="mendline", args=["run", "--", "notes-server"]), init_timeout=30)
# A model for tests that calls each named tool once. Put your own model here.
AGENT = Agent(TestModel(call_tools=["lookup"]), toolsets=[NOTES])


async def main():
    async with AGENT:
        print("tools:", *[tool.name for tool in await NOTES.list_tools()])
        run = await AGENT.run("Look up the milk.")
        print("answer:", run.output)


asyncio.run(main())
