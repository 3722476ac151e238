// Mastra's MCP client.
import { MCPClient } from "@mastra/mcp";
import { args, command, message, perform } from "./steps.mjs";

const client = new MCPClient({ id: "zoo", servers: { server: { command, args } }, timeout: 60000 });
const tools = await client.listTools();
const call = async () => JSON.stringify(await tools.server_echo.execute(message, {}));
await perform(Object.keys(tools), call);
await client.disconnect();
process.exit(0);
