// A server on the second major of the official TypeScript package (`@modelcontextprotocol/server`), in the modern era only.
//
//     server-v2.mjs (stdio|http)
//
// It is built on the low-level server, like the fixture in Python. This package answers with JSON, or with a stream if another
// message precedes the answer. Over HTTP it listens on a free port and prints `listening on PORT`. Every answer is a function
// of the requests, without time or randomness.

import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { createMcpHandler, inputRequired, ProtocolError, Server } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const INVALID_PARAMS = -32602;
const FORM = { type: 'object', properties: { colour: { type: 'string' } }, required: ['colour'] };
const LEVELS = ['debug', 'info', 'notice', 'warning', 'error', 'critical', 'alert', 'emergency'];
const CAPABILITIES = { tools: { listChanged: true }, resources: { subscribe: true, listChanged: true }, prompts: {}, completions: {}, logging: {} };

const tool = (name, description, properties = {}, annotations) => ({
    name,
    description,
    inputSchema: { type: 'object', properties, required: Object.keys(properties) },
    ...(annotations && { annotations }),
});

const TEXT = { type: 'string' };
const WHOLE = { type: 'integer', minimum: 0 };
const TOOLS = [
    tool('echo', 'Says what it was told.', { text: TEXT }, { readOnlyHint: true }),
    tool('count', 'Counts, with one progress notification for each step.', { steps: WHOLE }),
    tool('big', 'Answers with so many bytes of text.', { bytes: WHOLE }, { readOnlyHint: true }),
    tool('meet', 'Waits until all of its company have come, then answers the last one first.', { place: WHOLE, of: WHOLE }),
    tool('slow', 'Reports progress once and then waits for ever.'),
    tool('ask_user', "Asks the client's user."),
    tool('ask_roots', "Asks for the client's roots."),
    tool('touch', 'Tells subscribers that a resource has changed.', { uri: TEXT }),
    tool('speak', 'Logs one message at each level.'),
    tool('fail', 'Fails, as a tool does: in its result.'),
];
const RESOURCES = ['one', 'zwei', 'три', '四', 'five'].map(name => ({ uri: `note://${name}`, name: `note ${name}`, mimeType: 'text/plain' }));
const PROMPTS = [
    { name: 'welcome', description: 'A welcome message.', arguments: [{ name: 'whom', required: true }] },
    { name: 'plain', description: 'No arguments.' },
    { name: 'last', description: 'On the second page.' },
];

/** One page and the cursor of the next, which needs escapes in a JSON string. */
function page(key, items, size, cursor) {
    const start = cursor === undefined ? 0 : Number(cursor.replace('from "\\', ''));
    if (!Number.isInteger(start)) throw new ProtocolError(INVALID_PARAMS, `no such cursor: ${cursor}`);
    const end = start + size;
    return { [key]: items.slice(start, end), ...(end < items.length && { nextCursor: `from "\\${end}` }) };
}

const text = (said, more) => ({ content: [{ type: 'text', text: said }], ...more });

/** The calls that wait in `meet`; the state is shared by all requests of the process. */
const gone = new Map();

function departure(place) {
    if (!gone.has(place)) {
        const left = {};
        left.happened = new Promise(done => (left.happen = done));
        gone.set(place, left);
    }
    return gone.get(place);
}

/** Requests input, or returns the answer. */
function ask(ctx, request) {
    const { inputResponses, requestState } = ctx.mcpReq;
    if (inputResponses?.question === undefined) {
        return inputRequired({ inputRequests: { question: request }, requestState: 'state of the question' });
    }
    return text(`${JSON.stringify(inputResponses.question)} after ${requestState()}`);
}

const CALLS = {
    echo: ({ text: said }) => text(said),
    async count({ steps }, ctx) {
        for (let step = 1; step <= steps; step++) await progress(ctx, { progress: step, total: steps, message: `step ${step}` });
        return text(`counted to ${steps}`);
    },
    big: ({ bytes }) => text('0123456789abcdef'.repeat(bytes / 16 + 1).slice(0, bytes)),
    async meet({ place, of }) {
        const left = departure(place);
        if (place + 1 < of) await departure(place + 1).happened;
        left.happen();
        return text(`${place} of ${of} leaves`);
    },
    async slow(_, ctx) {
        await progress(ctx, { progress: 1, message: 'started' });
        return new Promise(() => {});
    },
    ask_user: (_, ctx) => ask(ctx, inputRequired.elicit({ message: 'Which colour?', requestedSchema: FORM })),
    ask_roots: (_, ctx) => ask(ctx, { method: 'roots/list' }),
    async touch({ uri }, _ctx, touched) {
        await touched(uri);
        return text('touched');
    },
    async speak(_, ctx) {
        for (const level of LEVELS) await ctx.mcpReq.log(level, { said: `at ${level}` }, 'fixture');
        return text('spoken');
    },
    fail: () => text('it did not work', { isError: true }),
};

async function progress(ctx, step) {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    if (progressToken !== undefined) await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, ...step } });
}

/** A server for one HTTP request or one pipe, which notify subscribers in different ways. */
function fixture(touched) {
    const server = new Server({ name: 'mendline-fixture-ts', version: '1.0.0' }, { capabilities: CAPABILITIES, instructions: 'Provoke me.' });
    const on = (method, answer) => server.setRequestHandler(method, ({ params }, ctx) => answer(params ?? {}, ctx));
    on('tools/list', ({ cursor }) => page('tools', TOOLS, 4, cursor));
    on('resources/list', ({ cursor }) => page('resources', RESOURCES, 2, cursor));
    on('resources/templates/list', () => ({ resourceTemplates: [{ uriTemplate: 'note://{name}', name: 'any note' }] }));
    on('prompts/list', ({ cursor }) => page('prompts', PROMPTS, 2, cursor));
    on('resources/read', ({ uri }) => {
        if (!RESOURCES.some(resource => resource.uri === uri)) throw new ProtocolError(INVALID_PARAMS, 'no such note', { uri });
        return { contents: [{ uri, mimeType: 'text/plain', text: `The note at ${uri}: ünïcödé \u2028 end` }] };
    });
    on('prompts/get', ({ arguments: given }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Please welcome ${given?.whom}.` } }],
    }));
    on('completion/complete', ({ argument }) => {
        const values = ['Ada', 'Alan', 'Barbara'].filter(name => name.startsWith(argument.value));
        return { completion: { values, total: values.length, hasMore: false } };
    });
    on('tools/call', ({ name, arguments: given }, ctx) => {
        const call = Object.hasOwn(CALLS, name) ? CALLS[name] : undefined;
        if (!call) throw new ProtocolError(INVALID_PARAMS, `Unknown tool: ${name}`, { asked: name });
        return call(given ?? {}, ctx, uri => touched(server, uri));
    });
    return server;
}

/** Converts a request of node to a web request, and a web response to one of node. */
async function serve(handler, incoming, outgoing) {
    const left = new AbortController();
    outgoing.on('close', () => left.abort());
    const body = incoming.method === 'POST' ? Readable.toWeb(incoming) : undefined;
    const headers = new Headers(Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]));
    const url = new URL(incoming.url, `http://${incoming.headers.host}`);
    const request = new Request(url, { method: incoming.method, headers, body, duplex: 'half', signal: left.signal });
    const response = await handler.fetch(request);
    console.log(`"${incoming.method} ${incoming.url} HTTP/1.1" ${response.status} answered`);
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.flushHeaders();
    if (!response.body) return outgoing.end();
    Readable.fromWeb(response.body).on('error', () => outgoing.destroy()).pipe(outgoing);
}

if (process.argv[2] === 'http') {
    const handler = createMcpHandler(() => fixture((_, uri) => handler.notify.resourceUpdated(uri)), { legacy: 'reject' });
    const server = createServer((incoming, outgoing) => serve(handler, incoming, outgoing).catch(() => outgoing.destroy()));
    server.listen(0, '127.0.0.1', () => console.log(`listening on ${server.address().port}`));
} else {
    serveStdio(() => fixture((server, uri) => server.sendResourceUpdated({ uri })), { legacy: 'reject' });
}
