// LangChain's adapters for Node.
import { MultiServerMCPClient } from "@langchain/mcp-adapters";
import { args, command, message, perform } from "./steps.mjs";

const client = new MultiServerMCPClient({ mcpServers: { server: { transport: "stdio", command, args } } });
const tools = await client.getTools();
const echo = tools.find((tool) => tool.name.endsWith("echo"));
const call = async () => JSON.stringify(await echo.invoke(message));
await perform(tools.map((tool) => tool.name), call);
await client.close();
