import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";

const notes = new StdioClientTransport({ command: "mendline", args: ["run", "--", "notes-server"] });
const client = new Client({ name: "secretary", version: "1.0.0" });
await client.connect(notes);
const result = await client.callTool({ name: "create_note", arguments: { key: "milk" } });
const failure = result._meta?.["dev.mendline/failure"];
if (!failure) {
  // The server's own answer: a result, or its own error.
  console.log("answer:", result.content[0].text);
} else if (failure.outcome === "not_sent" || failure.outcome === "refused") {
  console.log("did not run; try again in", failure.retryAfterMs ?? 0, "ms");
} else {
  // The call may have run. Look before you write again.
  const found = await client.callTool({ name: "lookup", arguments: { key: "milk" } });
  console.log("unknown:", failure.cause, "- now:", found.content[0].text);
}
await client.close();
