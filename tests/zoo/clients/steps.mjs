// The steps that every Node client performs: it prints the names of the tools, and calls `echo` for each line of stdin.
import { createInterface } from "node:readline";

export const [command, ...args] = process.argv.slice(2);
export const message = { message: "there?" };

const show = (line) => process.stdout.write(`${JSON.stringify(line)}\n`);

// Performs the steps with the names of the tools and a function that calls `echo` and returns the text.
export async function perform(tools, call) {
  show({ tools: [...tools].sort() });
  for await (const _ of createInterface({ input: process.stdin })) {
    try {
      show({ answer: await call() });
    } catch (error) {
      show({ failed: String(error) });
    }
  }
}

// Returns the text of the content of a result.
export const textOf = (content) => content.map((item) => item.text).join("");
