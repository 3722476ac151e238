import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const url = process.argv[2];
const client = new Client({ name: "secretary", version: "1.0.0" });
await client.connect(new StdioClientTransport({ command: "mendline", args: ["run", url] }));
const { tools } = await client.listTools();
console.log("tools:", ...tools.map((tool) => tool.name));
const patience = { timeout: 300_000, resetTimeoutOnProgress: true, onprogress: () => {} };
const result = await client.callTool({ name: "lookup", arguments: { key: "milk" } }, undefined, patience);
console.log("answer:", result.content[0].text);
await client.close();
