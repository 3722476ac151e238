import asyncio

from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

NOTES = StdioServerParameters(command="mendline", args=["run", "--", "notes-server"])


async def main():
    async with stdio_client(NOTES) as (read, write), ClientSession(read, write) as session:
        await session.initialize()
        result = await session.call_tool("create_note", {"key": "milk"})
        failure = (result.meta or {}).get("dev.mendline/failure")
        if failure is None:
            # The server's own answer: a result, or its own error.
            print("answer:", result.content[0].text)
        elif failure["outcome"] in ("not_sent", "refused"):
            print("did not run; try again in", failure.get("retryAfterMs", 0), "ms")
        else:
            # The call may have run. Look before you write again.
            found = await session.call_tool("lookup", {"key": "milk"})
            print("unknown:", failure["cause"], "- now:", found.content[0].text)


asyncio.run(main())
