// The AI SDK's MCP client.
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";
import { args, command, message, perform, textOf } from "./steps.mjs";

const client = await createMCPClient({ transport: new StdioTransport({ command, args }) });
const tools = await client.tools();
const call = async () => textOf((await tools.echo.execute(message, { toolCallId: "1", messages: [] })).content);
await perform(Object.keys(tools), call);
await client.close();
