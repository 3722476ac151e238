// The client of the official TypeScript SDK 2.x.
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { args, command, message, perform, textOf } from "./steps.mjs";

const client = new Client({ name: "zoo", version: "1" });
await client.connect(new StdioClientTransport({ command, args }));
const { tools } = await client.listTools();
const call = async () => textOf((await client.callTool({ name: "echo", arguments: message })).content);
await perform(tools.map((tool) => tool.name), call);
await client.close();
