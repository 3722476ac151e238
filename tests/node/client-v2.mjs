// The official TypeScript client, second major (`@modelcontextprotocol/client`), which speaks both eras.
//
// The modern era is pinned rather than probed for: over stdio this package probes on a second, short-lived process, and a
// transcript should hold one conversation.

import { Client, specTypeSchemas } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { ANSWERS, CAPABILITIES, run } from './script.mjs';

await run(async (server, listener, modern) => {
    const mode = modern ? { pin: '2026-07-28' } : 'legacy';
    const client = new Client({ name: 'peer-ts-2', version: '1.0.0' }, { capabilities: CAPABILITIES, versionNegotiation: { mode } });
    for (const method of Object.keys(ANSWERS)) {
        client.setRequestHandler(method, ({ params }) => listener.answer(client, method, params));
    }
    client.fallbackNotificationHandler = async ({ method, params }) => listener.note(method, params);
    await client.connect(new StdioClientTransport(server));
    return {
        client,
        callTool: (params, options) => client.callTool(params, options),
        request: request => client.request(request, specTypeSchemas.EmptyResult),
    };
});
