// The official TypeScript SDK 1.x.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { args, command, message, perform, textOf } from "./steps.mjs";

const client = new Client({ name: "zoo", version: "1" });
await client.connect(new StdioClientTransport({ command, args }));
const { tools } = await client.listTools();
const call = async () => textOf((await client.callTool({ name: "echo", arguments: message })).content);
await perform(tools.map((tool) => tool.name), call);
await client.close();
