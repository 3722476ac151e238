import asyncio

from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from mcp import StdioServerParameters

NOTES = McpToolset(
    connection_params=StdioConnectionParams(
        server_params=StdioServerParameters(command="mendline", args=["run", "--", "notes-server"]),
        timeout=300,
    )
)


async def main():
    # An agent gets the whole toolset: LlmAgent(model=…, tools=[NOTES])
    tools = {tool.name: tool for tool in await NOTES.get_tools()}
    print("tools:", *tools)
    result = await tools["lookup"].run_async(args={"key": "milk"}, tool_context=None)
    print("answer:", result["content"][0]["text"])
    await NOTES.close()


asyncio.run(main())
