import { readFile, writeFile } from "node:fs/promises";
import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import { z } from "zod";

const file = process.argv[2];
const server = new McpServer({ name: "notes", version: "1.0.0" });
const text = (text) => ({ content: [{ type: "text", text }] });
const load = async () => JSON.parse(await readFile(file, "utf8").catch(() => "{}"));
const save = (notes) => writeFile(file, JSON.stringify(notes));
const name = z.string();

// Changes nothing: Mendline sends this call again after a crash.
const reads = { annotations: { readOnlyHint: true }, inputSchema: { name } };
server.registerTool("find_note", reads, async ({ name }) => {
  const notes = await load();
  return text(notes[name] ?? `There is no note ${name}. The names are: ${Object.keys(notes).join(", ")}.`);
});

// Twice is the same as once: Mendline sends this call again too.
const repeatable = { annotations: { readOnlyHint: false, idempotentHint: true }, inputSchema: { name, text: z.string() } };
server.registerTool("set_note", repeatable, async (note) => {
  await save({ ...(await load()), [note.name]: note.text });
  return text(`${note.name} is saved.`);
});

// Twice is not once: after a crash the model reads that the outcome is unknown.
const unsafe = { annotations: { readOnlyHint: false, idempotentHint: false }, inputSchema: { name, text: z.string() } };
server.registerTool("append_to_note", unsafe, async (note) => {
  const notes = await load();
  await save({ ...notes, [note.name]: (notes[note.name] ?? "") + note.text });
  return text(`${note.name} is longer now.`);
});

await server.connect(new StdioServerTransport());
