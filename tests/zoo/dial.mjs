// Connects a pipe with a server at a URL: `node dial.mjs URL http|sse`. Each line of stdin is a message to the server, and
// each message of the server is a line of stdout. The transports are those of the official TypeScript SDK.
import { createInterface } from "node:readline";
import { SSEClientTransport } from "@modelcontextprotocol/sdk/client/sse.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, kind] = process.argv.slice(2);
const Transport = kind === "sse" ? SSEClientTransport : StreamableHTTPClientTransport;
const transport = new Transport(new URL(url));
transport.onmessage = (message) => {
  const revision = message.result?.protocolVersion;
  if (message.id === "initialize" && revision) transport.setProtocolVersion(revision);
  process.stdout.write(`${JSON.stringify(message)}\n`);
};
transport.onerror = (error) => console.error(error);
await transport.start();
for await (const line of createInterface({ input: process.stdin })) {
  await transport.send(JSON.parse(line));
}
await transport.close();
process.exit(0);
