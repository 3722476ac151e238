import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const notes = new StdioClientTransport({ command: "mendline", args: ["run", "--", "notes-server"] });
const client = new Client({ name: "secretary", version: "1.0.0" });
await client.connect(notes);
const { tools } = await client.listTools();
console.log("tools:", ...tools.map((tool) => tool.name));
const result = await client.callTool({ name: "lookup", arguments: { key: "milk" } });
console.log("answer:", result.content[0].text);
await client.close();
