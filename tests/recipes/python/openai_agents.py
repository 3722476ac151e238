import asyncio

from agents import Agent
from agents.mcp import MCPServerStdio

NOTES = MCPServerStdio(
    params={"command": "mendline", "args": ["run", "--", "notes-server"]},
    client_session_timeout_seconds=300,
)


async def main():
    async with NOTES as server:
        agent = Agent(name="secretary", mcp_servers=[server])
        print("tools:", *[tool.name for tool in await agent.mcp_servers[0].list_tools()])
        # Runner.run(agent, "Look up the milk.") makes this call when the model asks for it.
        result = await server.call_tool("lookup", {"key": "milk"})
        print("answer:", result.content[0].text)


asyncio.run(main())
