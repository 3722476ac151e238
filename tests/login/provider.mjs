// npm `oidc-provider` as the authorization server of an MCP server on the official SDK.
//
//     provider.mjs ACCESS_SECONDS
//
// Prints one JSON object: the URL of the MCP server, the issuer, and the URL of the counts. Clients register themselves,
// a person confirms on the pages for development, refresh tokens rotate, and the second use of one revokes the grant.
// Ends with its stdin.

import { createServer } from 'node:http';

import { Server } from '@modelcontextprotocol/sdk/server/index.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { CallToolRequestSchema, ListToolsRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { Provider } from 'oidc-provider';

const METADATA = '/.well-known/oauth-protected-resource/mcp';
const accessSeconds = Number(process.argv[2] ?? 3600);
const counts = { registrations: 0, logins: 0, refreshes: 0, errors: 0, revokedGrants: 0, accepted: 0, refused: 0, executions: {} };

/** Listens on a free port of loopback and returns the origin. */
async function listen(server) {
    await new Promise(done => server.listen(0, '127.0.0.1', done));
    return `http://127.0.0.1:${server.address().port}`;
}

function reply(response, status, body, headers = {}) {
    response.writeHead(status, { 'content-type': 'application/json', ...headers });
    response.end(JSON.stringify(body));
}

const mcp = createServer((request, response) => answer(request, response).catch(why => reply(response, 500, { error: String(why) })));
const origin = await listen(mcp);
const resource = `${origin}/mcp`;

const authorization = createServer((request, response) => provider.callback()(request, response));
const issuer = await listen(authorization);

const provider = new Provider(issuer, {
    // Without keys of its own it uses keys for development.
    cookies: { keys: ['only for tests'] },
    scopes: ['openid', 'offline_access', 'mcp'],
    clientDefaults: { grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'] },
    findAccount: (_, sub) => ({ accountId: sub, claims: () => ({ sub, email: `${sub}@example.com` }) }),
    rotateRefreshToken: true,
    clockTolerance: 0,
    ttl: { AccessToken: accessSeconds, RefreshToken: 86_400, Session: 86_400, Grant: 86_400, Interaction: 600, DeviceCode: 600 },
    features: {
        devInteractions: { enabled: true },
        registration: { enabled: true },
        revocation: { enabled: true },
        deviceFlow: { enabled: true },
        resourceIndicators: {
            enabled: true,
            useGrantedResource: () => true,
            getResourceServerInfo: (_, indicator) => {
                if (indicator !== resource) throw new Error(`unknown resource ${indicator}`);
                return { scope: 'mcp offline_access', accessTokenTTL: accessSeconds, accessTokenFormat: 'opaque' };
            },
        },
    },
});
provider.on('registration_create.success', () => (counts.registrations += 1));
provider.on('grant.success', ({ oidc }) => {
    const type = oidc.params.grant_type;
    if (type === 'refresh_token') counts.refreshes += 1;
    else counts.logins += 1;
});
provider.on('grant.revoked', () => (counts.revokedGrants += 1));
for (const event of ['grant.error', 'authorization.error', 'registration_create.error', 'server_error']) {
    provider.on(event, (_, why) => {
        counts.errors += 1;
        process.stderr.write(`${event}: ${why.error} ${why.error_description ?? why.stack}\n`);
    });
}

/** Returns the text of a body. */
async function bodyOf(request) {
    const pieces = [];
    for await (const piece of request) pieces.push(piece);
    return Buffer.concat(pieces).toString();
}

function tools() {
    const server = new Server({ name: 'protected', version: '1.0.0' }, { capabilities: { tools: {} } });
    server.setRequestHandler(ListToolsRequestSchema, () => ({
        tools: [
            { name: 'lookup', inputSchema: { type: 'object' }, annotations: { readOnlyHint: true } },
            { name: 'create_note', inputSchema: { type: 'object' } },
        ],
    }));
    server.setRequestHandler(CallToolRequestSchema, ({ params }) => {
        const key = params.arguments?.key ?? '-';
        counts.executions[key] = (counts.executions[key] ?? 0) + 1;
        return { content: [{ type: 'text', text: `${params.name} ${key}` }] };
    });
    return server;
}

async function answer(request, response) {
    const { pathname } = new URL(request.url, origin);
    if (pathname === METADATA) return reply(response, 200, { resource, authorization_servers: [issuer], scopes_supported: ['mcp'] });
    if (pathname === '/counts') return reply(response, 200, counts);
    if (pathname !== '/mcp') return reply(response, 404, {});
    const [, token] = (request.headers.authorization ?? '').split(' ');
    const found = token && (await provider.AccessToken.find(token));
    if (!found || found.aud !== resource) {
        counts.refused += 1;
        const error = token ? 'error="invalid_token", ' : '';
        return reply(response, 401, {}, { 'www-authenticate': `Bearer ${error}resource_metadata="${origin}${METADATA}"` });
    }
    counts.accepted += 1;
    if (request.method !== 'POST') return reply(response, 405, {}, { allow: 'POST' });
    const [server, transport] = [tools(), new StreamableHTTPServerTransport({ sessionIdGenerator: undefined })];
    response.on('close', () => server.close());
    await server.connect(transport);
    await transport.handleRequest(request, response, JSON.parse(await bodyOf(request)));
}

process.stdout.write(`${JSON.stringify({ url: resource, issuer, counts: `${origin}/counts` })}\n`);
process.stdin.resume();
process.stdin.on('end', () => process.exit(0));
