// The official TypeScript client, first major (`@modelcontextprotocol/sdk`), which supports only the legacy era.

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as Sse } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport as Stdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as Http } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { CreateMessageRequestSchema, ElicitRequestSchema, EmptyResultSchema, ListRootsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { CAPABILITIES, run, transport } from './script.mjs';

await run(async (server, listener) => {
    const client = new Client({ name: 'peer-ts-1', version: '1.0.0' }, { capabilities: CAPABILITIES });
    for (const schema of [CreateMessageRequestSchema, ElicitRequestSchema, ListRootsRequestSchema]) {
        client.setRequestHandler(schema, ({ method, params }) => listener.answer(client, method, params));
    }
    client.fallbackNotificationHandler = async ({ method, params }) => listener.note(method, params);
    await client.connect(transport(server, { Stdio, Http, Sse }));
    return {
        client,
        callTool: (params, options) => client.callTool(params, undefined, options),
        request: request => client.request(request, EmptyResultSchema),
    };
});
