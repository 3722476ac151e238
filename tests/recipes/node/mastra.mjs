import { MCPClient } from "@mastra/mcp";

const client = new MCPClient({
  servers: { notes: { command: "mendline", args: ["run", "--", "notes-server"] } },
  timeout: 300_000,
});
// new Agent({ model, tools: await client.listTools() }) gets them as usual.
const tools = await client.listTools();
console.log("tools:", ...Object.keys(tools));
const result = await tools.notes_lookup.execute({ key: "milk" }, {});
console.log("answer:", JSON.stringify(result));
await client.disconnect();
