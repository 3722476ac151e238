// The official TypeScript client, second major (`@modelcontextprotocol/client`), which supports both eras.
//
// The modern era is pinned, so that a server without it is an error. Over stdio this package performs the handshake with a
// second, short-lived process even then; the tap of the next process starts a new log.

import { Client, SSEClientTransport as Sse, StreamableHTTPClientTransport as Http, specTypeSchemas } from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio } from '@modelcontextprotocol/client/stdio';
import { ANSWERS, CAPABILITIES, run, transport } from './script.mjs';

await run(async (server, listener, modern) => {
    const mode = modern ? { pin: '2026-07-28' } : 'legacy';
    const client = new Client({ name: 'peer-ts-2', version: '1.0.0' }, { capabilities: CAPABILITIES, versionNegotiation: { mode } });
    for (const method of Object.keys(ANSWERS)) {
        client.setRequestHandler(method, ({ params }) => listener.answer(client, method, params));
    }
    client.fallbackNotificationHandler = async ({ method, params }) => listener.note(method, params);
    await client.connect(transport(server, { Stdio, Http, Sse }));
    return {
        client,
        callTool: (params, options) => client.callTool(params, options),
        request: request => client.request(request, specTypeSchemas.EmptyResult),
    };
});
