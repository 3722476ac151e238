// Starts a server as the configuration of a client says, calls it, kills the server and calls it again.
// Usage: node recover.mjs CONFIGURATION NAME COMMAND   COMMAND is a part of the command line of the server.
import { readFileSync, readdirSync } from 'node:fs';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const [configuration, name, command] = process.argv.slice(2);
const entry = JSON.parse(readFileSync(configuration, 'utf8')).mcpServers[name];
const client = new Client({ name: 'recover', version: '1' });
const transport = new StdioClientTransport({ ...entry, env: { ...process.env, ...entry.env }, stderr: 'inherit' });
await client.connect(transport);
await echo('before');
for (const pid of servers()) process.kill(pid, 'SIGKILL');
await echo('after');
await client.close();
console.log('recovered');

async function echo(message) {
  const result = await client.callTool({ name: 'echo', arguments: { message } });
  if (!result.content[0].text.includes(message)) throw new Error(JSON.stringify(result));
}

// The processes below this one that run the server itself, and not Mendline with the server in its arguments.
function servers() {
  const processes = readdirSync('/proc').filter((pid) => /^\d+$/.test(pid)).flatMap(read);
  const parents = new Map(processes.map(({ pid, parent }) => [pid, parent]));
  const isBelow = (pid) => pid !== undefined && (pid === process.pid || isBelow(parents.get(pid)));
  const found = processes.filter((it) => it.words[1]?.includes(command) && isBelow(it.parent)).map((it) => it.pid);
  if (found.length === 0) throw new Error(`no process runs ${command}`);
  return found;
}

function read(pid) {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8');
    const parent = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]);
    return [{ pid: Number(pid), parent, words: readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0') }];
  } catch {
    return []; // It has ended.
  }
}
