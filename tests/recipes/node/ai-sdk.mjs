import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioTransport } from "@ai-sdk/mcp/mcp-stdio";

const transport = new StdioTransport({ command: "mendline", args: ["run", "--", "notes-server"] });
const client = await createMCPClient({ transport, protocolVersionDiscovery: false });
// generateText({ model, tools, prompt }) and streamText get them as usual.
const tools = await client.tools();
console.log("tools:", ...Object.keys(tools));
const result = await tools.lookup.execute({ key: "milk" }, { toolCallId: "1", messages: [] });
console.log("answer:", result.content[0].text);
await client.close();
