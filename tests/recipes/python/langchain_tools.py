import asyncio

from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

CLIENT = MultiServerMCPClient(
    {"notes": {"transport": "stdio", "command": "mendline", "args": ["run", "--", "notes-server"]}}
)


async def main():
    async with CLIENT.session("notes") as session:
        tools = {tool.name: tool for tool in await load_mcp_tools(session)}
        print("tools:", *tools)
        # An agent gets them as usual: create_agent(model, list(tools.values()))
        answer = await tools["lookup"].ainvoke({"key": "milk"})
        print("answer:", answer[0]["text"])


asyncio.run(main())
