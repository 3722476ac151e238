import { McpServer } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StdioServerTransport } from "@modelcontextprotocol/sdk/server/stdio.js";
import {
  BrokenCircuitError,
  ConsecutiveBreaker,
  ExponentialBackoff,
  circuitBreaker,
  handleType,
  retry,
  wrap,
} from "cockatiel";

const [api, reset] = process.argv.slice(2);

// The dependency failed in a way that may pass: no connection, a timeout, 429, 5xx. Other errors do not open a breaker.
class Unavailable extends Error {}

async function fetchPart(name) {
  const response = await fetch(`${api}/${name}`, { signal: AbortSignal.timeout(5000) }).catch((error) => {
    throw new Unavailable(`no answer (${error.cause?.code ?? error.name})`);
  });
  if (response.status === 429 || response.status >= 500) throw new Unavailable(`HTTP ${response.status}`);
  if (!response.ok) throw new Error(`HTTP ${response.status}`);
  return response.text();
}

// Each dependency has its own breaker. It counts a call with its two attempts once.
function guarded() {
  const passing = handleType(Unavailable);
  const breaker = circuitBreaker(passing, { halfOpenAfter: reset * 1000, breaker: new ConsecutiveBreaker(3) });
  const attempts = retry(passing, { maxAttempts: 1, backoff: new ExponentialBackoff({ initialDelay: 100 }) });
  return wrap(breaker, attempts);
}
const sources = { commits: guarded(), issues: guarded() };

// Returns one part of the summary, or the reason why it is missing.
async function part(name) {
  try {
    return { found: `${name}: ${await sources[name].execute(() => fetchPart(name))}` };
  } catch (error) {
    if (!(error instanceof BrokenCircuitError)) return { missing: `${name}: ${error.message}` };
    return { missing: `${name}: not asked, because it failed repeatedly; asked again within ${reset} s` };
  }
}

const server = new McpServer({ name: "project", version: "1.0.0" });
const summary = { description: "Returns the latest commits and the open issues.", annotations: { readOnlyHint: true } };
server.registerTool("project_summary", summary, async () => {
  const parts = [await part("commits"), await part("issues")];
  const found = parts.flatMap((part) => part.found ?? []);
  const missing = parts.flatMap((part) => part.missing ?? []).join("; ");
  const answer = (text, isError) => ({ content: [{ type: "text", text }], isError });
  if (found.length === 0) return answer(`No source answered: ${missing}. Try again in ${reset} s.`, true);
  if (missing) found.push(`Incomplete. Missing: ${missing}.`);
  return answer(found.join("\n"), false);
});

await server.connect(new StdioServerTransport());
