// A server on the official TypeScript package (`@modelcontextprotocol/sdk`) whose tools change while it runs.
//
// The package reports each registered, removed, enabled or disabled tool with a `list_changed` of its own: `grow` registers
// twenty tools, `blink` disables and enables one, so that nothing is different in the end. A process that finds the file
// `restarted` in its working directory registers its tools a moment after its start, one after the other.

import { existsSync, writeFileSync } from 'node:fs';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';

const server = new McpServer({ name: 'growing', version: '1.0.0' }, { capabilities: { tools: { listChanged: true } } });
const text = said => ({ content: [{ type: 'text', text: said }] });
const add = (name, run) => server.registerTool(name, { description: name, annotations: { readOnlyHint: true } }, run);

const tools = [
    ['grow', () => {
        for (let number = 0; number < 20; number += 1) add(`tool_${number}`, async () => text('ok'));
        return text('grown');
    }],
    ['blink', () => {
        plain.disable();
        plain.enable();
        return text('as before');
    }],
    ['plain', () => text('plain')],
];
let plain;
const register = ([name, run]) => {
    const added = add(name, async () => run());
    if (name === 'plain') plain = added;
};

const [marker] = process.argv.slice(2);
if (existsSync(marker)) {
    register(tools[0]);
    await server.connect(new StdioServerTransport());
    // Long enough that a client which lists its tools at once gets only one of them.
    for (const tool of tools.slice(1)) {
        await new Promise(resolve => setTimeout(resolve, 700));
        register(tool);
    }
} else {
    tools.forEach(register);
    await server.connect(new StdioServerTransport());
    writeFileSync(marker, '');
}
