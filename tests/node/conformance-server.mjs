// The server that the conformance suite asks for, on the official TypeScript package (`@modelcontextprotocol/server`).
//
//     conformance-server.mjs
//
// It serves both eras at `/mcp`: the legacy era with sessions and an event store, the modern era without. It listens on a free
// port and prints `listening on PORT`. The names of tools, resources and prompts are those of the suite's scenarios.

import { createHmac, randomUUID, timingSafeEqual } from 'node:crypto';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { text as readAll } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import {
    createMcpHandler,
    hostHeaderValidationResponse,
    inputRequired,
    isLegacyRequest,
    localhostAllowedHostnames,
    localhostAllowedOrigins,
    MissingRequiredClientCapabilityError,
    originValidationResponse,
    ProtocolError,
    Server,
    WebStandardStreamableHTTPServerTransport,
} from '@modelcontextprotocol/server';

const INVALID_PARAMS = -32602;
const HEADER_MISMATCH = -32020;
const PAUSE_MS = 20;
const RETRY_MS = 100;
const LONG_MS = 2_500;
const PNG = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==';
const WAV = 'UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAIA+AAACABAAZGF0YQAAAAA=';

const text = (said, more) => ({ content: [{ type: 'text', text: said }], ...more });
const image = { type: 'image', data: PNG, mimeType: 'image/png' };
const embedded = (uri, mimeType, said) => ({ type: 'resource', resource: { uri, mimeType, text: said } });

// ---- questions of the server ----

const form = (properties, required = Object.keys(properties)) => ({ type: 'object', properties, required });
const STRING = { type: 'string' };
const NAME_FORM = form({ name: STRING });

const ask = {
    name: () => inputRequired.elicit({ message: 'What is your name?', requestedSchema: NAME_FORM }),
    confirm: () => inputRequired.elicit({ message: 'Please confirm', requestedSchema: form({ ok: { type: 'boolean' } }) }),
    sample: question => inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: question } }], maxTokens: 100 }),
    roots: () => inputRequired.listRoots(),
};

/** Requests what the client has not given yet, or completes. */
function needs(ctx, requests, complete, state) {
    const given = ctx.mcpReq.inputResponses ?? {};
    const missing = Object.entries(requests).filter(([key]) => given[key] === undefined);
    if (missing.length === 0) return complete(given);
    return inputRequired({ inputRequests: Object.fromEntries(missing), ...(state !== undefined && { requestState: state }) });
}

const SECRET = randomUUID();
const signature = said => createHmac('sha256', SECRET).update(said).digest('hex');
const sealed = said => `${said}.${signature(said)}`;

/** Returns the content of a state that this process made. */
function unsealed(state) {
    const [said, signed] = [state.slice(0, state.lastIndexOf('.')), state.slice(state.lastIndexOf('.') + 1)];
    const expected = signature(said);
    if (signed.length !== expected.length || !timingSafeEqual(Buffer.from(signed), Buffer.from(expected))) {
        throw new ProtocolError(INVALID_PARAMS, 'the state of the request was changed');
    }
    return said;
}

const DEFAULTS_FORM = form(
    {
        name: { type: 'string', default: 'John Doe' },
        age: { type: 'integer', default: 30 },
        score: { type: 'number', default: 95.5 },
        status: { type: 'string', enum: ['active', 'inactive', 'pending'], default: 'active' },
        verified: { type: 'boolean', default: true },
    },
    [],
);
const titled = kind => ['First', 'Second', 'Third'].map((title, at) => ({ const: `value${at + 1}`, title: `${title} ${kind}` }));
const OPTIONS = ['option1', 'option2', 'option3'];
const ENUMS_FORM = form(
    {
        untitledSingle: { type: 'string', enum: OPTIONS },
        titledSingle: { type: 'string', oneOf: titled('Option') },
        legacyEnum: { type: 'string', enum: ['opt1', 'opt2', 'opt3'], enumNames: ['Option One', 'Option Two', 'Option Three'] },
        untitledMulti: { type: 'array', items: { type: 'string', enum: OPTIONS } },
        titledMulti: { type: 'array', items: { anyOf: titled('Choice') } },
    },
    [],
);

async function elicited(ctx, message, requestedSchema) {
    const { action, content } = await ctx.mcpReq.elicitInput({ message, requestedSchema });
    return text(`Elicitation completed: action=${action}, content=${JSON.stringify(content ?? {})}`);
}

// ---- tools ----

const tool = (name, description, properties = {}) => ({ name, description, inputSchema: { type: 'object', properties, required: Object.keys(properties) } });

const SCHEMA_2020_12 = {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    type: 'object',
    $defs: { address: { $anchor: 'addressDef', type: 'object', properties: { street: STRING, city: STRING } } },
    properties: {
        name: STRING,
        address: { $ref: '#/$defs/address' },
        contactMethod: { type: 'string', enum: ['phone', 'email'] },
        phone: STRING,
        email: STRING,
    },
    allOf: [{ anyOf: [{ required: ['phone'] }, { required: ['email'] }] }],
    if: { properties: { contactMethod: { const: 'phone' } }, required: ['contactMethod'] },
    then: { required: ['phone'] },
    else: { required: ['email'] },
    additionalProperties: false,
};

const progress = async (ctx, done) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    if (progressToken !== undefined) await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: done, total: 100 } });
};

/** The functions of the tools, by name. */
const CALLS = {
    test_simple_text: () => text('This is a simple text response for testing.'),
    test_image_content: () => ({ content: [image] }),
    test_audio_content: () => ({ content: [{ type: 'audio', data: WAV, mimeType: 'audio/wav' }] }),
    test_embedded_resource: () => ({ content: [embedded('test://embedded-resource', 'text/plain', 'This is an embedded resource content.')] }),
    test_multiple_content_types: () => ({
        content: [
            { type: 'text', text: 'Multiple content types test:' },
            image,
            embedded('test://mixed-content-resource', 'application/json', JSON.stringify({ test: 'data', value: 123 })),
        ],
    }),
    async test_tool_with_logging(_, ctx) {
        for (const said of ['Tool execution started', 'Tool processing data', 'Tool execution completed']) {
            await ctx.mcpReq.log('info', said);
            await sleep(PAUSE_MS);
        }
        return text('logged three times');
    },
    async test_tool_with_progress(_, ctx) {
        for (const done of [0, 50, 100]) {
            await progress(ctx, done);
            await sleep(PAUSE_MS);
        }
        return text('reported three times');
    },
    test_error_handling: () => text('This tool intentionally returns an error for testing', { isError: true }),
    /** Ends the stream of its answer before the answer; the client resumes it. It takes so long that the gateway streams, too. */
    async test_reconnection(_, ctx) {
        ctx.http?.closeSSE?.();
        await sleep(LONG_MS);
        return text('answered after the stream was closed');
    },
    async test_sampling({ prompt }, ctx) {
        const answer = await ctx.mcpReq.requestSampling({ messages: [{ role: 'user', content: { type: 'text', text: prompt } }], maxTokens: 100 });
        return text(`LLM response: ${answer.content.text}`);
    },
    test_elicitation: ({ message }, ctx) => elicited(ctx, message, form({ username: STRING, email: STRING })),
    test_elicitation_sep1034_defaults: (_, ctx) => elicited(ctx, 'Please review the defaults', DEFAULTS_FORM),
    test_elicitation_sep1330_enums: (_, ctx) => elicited(ctx, 'Please choose', ENUMS_FORM),
    json_schema_2020_12_tool: given => text(`called with ${JSON.stringify(given)}`),
    test_custom_header: ({ region }) => text(`in ${region}`),
    test_missing_capability(_, ctx) {
        if (!capabilities(ctx).sampling) throw new MissingRequiredClientCapabilityError({ requiredCapabilities: { sampling: {} } });
        return text('sampling is declared');
    },
    async test_streaming_elicitation(_, ctx) {
        await progress(ctx, 50);
        return needs(ctx, { user_name: ask.name() }, () => text('done'));
    },
    async test_logging_tool(_, ctx) {
        await ctx.mcpReq.log('info', 'a message');
        return text('logged once');
    },
    test_trigger_tool_change: (_, _ctx, notify) => changed(TOOLS, 'test_new_tool', notify.toolsChanged),
    test_trigger_prompt_change: (_, _ctx, notify) => changed(PROMPTS, 'test_new_prompt', notify.promptsChanged),
    test_input_required_result_elicitation: (_, ctx) => needs(ctx, { user_name: ask.name() }, ({ user_name }) => text(`Hello, ${user_name?.content?.name}!`)),
    test_input_required_result_sampling: (_, ctx) =>
        needs(ctx, { capital_question: ask.sample('What is the capital of France?') }, ({ capital_question }) => text(JSON.stringify(capital_question))),
    test_input_required_result_list_roots: (_, ctx) => needs(ctx, { client_roots: ask.roots() }, ({ client_roots }) => text(JSON.stringify(client_roots))),
    test_input_required_result_request_state: (_, ctx) => {
        const state = ctx.mcpReq.requestState();
        return needs(ctx, { confirm: ask.confirm() }, () => text(`state-ok ${unsealed(state ?? '')}`), sealed('asked'));
    },
    test_input_required_result_tampered_state: (_, ctx) => {
        const state = ctx.mcpReq.requestState();
        if (state !== undefined) unsealed(state);
        return needs(ctx, { confirm: ask.confirm() }, () => text('the state is unchanged'), sealed('asked'));
    },
    test_input_required_result_multiple_inputs: (_, ctx) =>
        needs(
            ctx,
            { user_name: ask.name(), greeting: ask.sample('Generate a greeting'), client_roots: ask.roots() },
            given => text(JSON.stringify(given)),
            sealed('three questions'),
        ),
    test_input_required_result_multi_round: (_, ctx) => {
        const state = ctx.mcpReq.requestState();
        const round = state === undefined ? 1 : Number(unsealed(state)) + 1;
        if (round > 2) return text('two answers');
        return inputRequired({ inputRequests: { [`step${round}`]: ask.name() }, requestState: sealed(String(round)) });
    },
    test_input_required_result_capabilities: (_, ctx) => {
        const has = capabilities(ctx);
        const possible = { ...(has.sampling && { question: ask.sample('What is the capital of France?') }), ...(has.elicitation && { user_name: ask.name() }) };
        return needs(ctx, possible, () => text('answered'));
    },
};

const DESCRIBED = {
    test_sampling: { prompt: STRING },
    test_elicitation: { message: STRING },
    test_custom_header: { region: { type: 'string', 'x-mcp-header': 'Region' } },
};
const TOOLS = Object.keys(CALLS).map(name =>
    name === 'json_schema_2020_12_tool'
        ? { name, description: 'Tool with JSON Schema 2020-12 features', inputSchema: SCHEMA_2020_12 }
        : tool(name, `The tool ${name} of the conformance suite.`, DESCRIBED[name]),
);

/** Adds an entry to a list and notifies the clients. */
function changed(list, prefix, notify) {
    const name = `${prefix}_${list.length}`;
    list.push(list === TOOLS ? tool(name, 'A new tool.') : { name, description: 'A new prompt.' });
    notify();
    return text('changed');
}

const capabilities = ctx => ctx.mcpReq.envelope?.['io.modelcontextprotocol/clientCapabilities'] ?? ctx.mcpReq._meta?.['io.modelcontextprotocol/clientCapabilities'] ?? {};

/** Returns the value of a header that may be in base64; nothing if it is not valid. */
function decoded(header) {
    const coded = /^=\?base64\?(.*)\?=$/.exec(header ?? '')?.[1];
    if (coded === undefined) return header ?? undefined;
    const bytes = Buffer.from(coded, 'base64');
    return bytes.toString('base64') === coded ? bytes.toString() : undefined;
}

// ---- resources and prompts ----

const RESOURCES = [
    { uri: 'test://static-text', name: 'static text', description: 'A text.', mimeType: 'text/plain' },
    { uri: 'test://static-binary', name: 'static binary', description: 'A picture.', mimeType: 'image/png' },
    { uri: 'test://watched-resource', name: 'watched resource', description: 'A resource for subscriptions.', mimeType: 'text/plain' },
];

function read(uri) {
    if (uri === 'test://static-text') return { uri, mimeType: 'text/plain', text: 'This is the content of the static text resource.' };
    if (uri === 'test://static-binary') return { uri, mimeType: 'image/png', blob: PNG };
    if (uri === 'test://watched-resource') return { uri, mimeType: 'text/plain', text: 'Watched.' };
    const id = /^test:\/\/template\/([^/]+)\/data$/.exec(uri)?.[1];
    if (id === undefined) throw new ProtocolError(INVALID_PARAMS, 'Resource not found', { uri });
    return { uri, mimeType: 'application/json', text: JSON.stringify({ id, templateTest: true, data: `Data for ID: ${id}` }) };
}

const says = (...contents) => ({ messages: contents.map(content => ({ role: 'user', content })) });
const words = said => ({ type: 'text', text: said });
const PROMPTS = [
    { name: 'test_simple_prompt', description: 'No arguments.' },
    { name: 'test_prompt_with_arguments', description: 'Two arguments.', arguments: ['arg1', 'arg2'].map(name => ({ name, required: true })) },
    { name: 'test_prompt_with_embedded_resource', description: 'A resource.', arguments: [{ name: 'resourceUri', required: true }] },
    { name: 'test_prompt_with_image', description: 'An image.' },
    { name: 'test_input_required_result_prompt', description: 'Asks first.' },
];
const GETS = {
    test_simple_prompt: () => says(words('This is a simple prompt for testing.')),
    test_prompt_with_arguments: ({ arg1, arg2 }) => says(words(`Prompt with arguments: arg1='${arg1}', arg2='${arg2}'`)),
    test_prompt_with_embedded_resource: ({ resourceUri }) =>
        says(embedded(resourceUri, 'text/plain', 'Embedded resource content for testing.'), words('Please process the embedded resource above.')),
    test_prompt_with_image: () => says(image, words('Please analyze the image above.')),
    test_input_required_result_prompt: (_, ctx) => {
        const question = inputRequired.elicit({ message: 'What context should the prompt use?', requestedSchema: form({ context: STRING }) });
        return needs(ctx, { user_context: question }, ({ user_context }) => says(words(`In the context ${user_context?.content?.context}.`)));
    },
};

// ---- the server ----

function found(table, name, kind) {
    if (!Object.hasOwn(table, name)) throw new ProtocolError(INVALID_PARAMS, `Unknown ${kind}: ${name}`);
    return table[name];
}

/** A server of an era. `notify` returns the functions that notify its clients. */
function server(era, notify) {
    const changes = { listChanged: true };
    const made = new Server(
        { name: 'mendline-conformance', version: '1.0.0' },
        { capabilities: { tools: changes, resources: { subscribe: true, ...changes }, prompts: changes, completions: {}, logging: {} } },
    );
    const on = (method, answer) => made.setRequestHandler(method, ({ params }, ctx) => answer(params ?? {}, ctx));
    on('tools/list', () => ({ tools: TOOLS }));
    on('tools/call', ({ name, arguments: given }, ctx) => found(CALLS, name, 'tool')(given ?? {}, ctx, notify()));
    on('resources/list', () => ({ resources: RESOURCES }));
    on('resources/templates/list', () => ({ resourceTemplates: [{ uriTemplate: 'test://template/{id}/data', name: 'template', mimeType: 'application/json' }] }));
    on('resources/read', ({ uri }) => ({ contents: [read(uri)] }));
    on('prompts/list', () => ({ prompts: PROMPTS }));
    on('prompts/get', ({ name, arguments: given }, ctx) => found(GETS, name, 'prompt')(given ?? {}, ctx));
    on('completion/complete', () => ({ completion: { values: ['paris', 'park', 'party'], total: 3, hasMore: false } }));
    if (era === 'legacy') {
        on('resources/subscribe', () => ({}));
        on('resources/unsubscribe', () => ({}));
    }
    return made;
}

const modern = createMcpHandler(() => server('modern', () => modern.notify), { legacy: 'reject' });

/** The events of all streams of one session, for clients that resume. */
class Events {
    #stored = [];

    async storeEvent(stream, message) {
        this.#stored.push({ stream, message });
        return `${this.#stored.length - 1}`;
    }

    async getStreamIdForEventId(id) {
        return this.#stored[Number(id)]?.stream;
    }

    async replayEventsAfter(last, { send }) {
        const stream = this.#stored[Number(last)]?.stream;
        for (const [id, event] of this.#stored.entries()) {
            if (id > Number(last) && event.stream === stream && Object.keys(event.message).length > 0) await send(`${id}`, event.message);
        }
        return stream;
    }
}

const sessions = new Map();

async function legacy(request) {
    const id = request.headers.get('mcp-session-id');
    if (id !== null) {
        const session = sessions.get(id);
        if (session) return session.handleRequest(request);
        return Response.json({ jsonrpc: '2.0', id: null, error: { code: -32001, message: 'Session not found' } }, { status: 404 });
    }
    const transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        eventStore: new Events(),
        retryInterval: RETRY_MS,
        onsessioninitialized: made => void sessions.set(made, transport),
        onsessionclosed: closed => void sessions.delete(closed),
    });
    const made = server('legacy', () => ({ toolsChanged: () => made.sendToolListChanged(), promptsChanged: () => made.sendPromptListChanged() }));
    await made.connect(transport);
    return transport.handleRequest(request);
}

/** Refuses a modern call whose `Mcp-Param-Region` does not repeat the body; the package leaves such headers to the server. */
async function mismatch(request) {
    if (request.headers.get('mcp-name') !== 'test_custom_header') return undefined;
    const { id, params } = await request.clone().json();
    if (decoded(request.headers.get('mcp-param-region')) === params?.arguments?.region) return undefined;
    const error = { code: HEADER_MISMATCH, message: 'Mcp-Param-Region does not match the body' };
    return Response.json({ jsonrpc: '2.0', id, error }, { status: 400 });
}

async function answer(request) {
    const refused =
        hostHeaderValidationResponse(request, localhostAllowedHostnames()) ?? originValidationResponse(request, localhostAllowedOrigins());
    if (refused) return refused;
    if (await isLegacyRequest(request)) return legacy(request);
    return (await mismatch(request)) ?? modern.fetch(request);
}

/** Converts a request of node to a web request, and a web response to one of node. */
async function serve(incoming, outgoing) {
    const left = new AbortController();
    outgoing.on('close', () => left.abort());
    // The whole body: the request is cloned to find out its era, and the two halves of a stream may wait for each other.
    const body = incoming.method === 'POST' ? await readAll(incoming) : undefined;
    const headers = new Headers(Object.entries(incoming.headers).map(([name, value]) => [name, String(value)]));
    const url = new URL(incoming.url, `http://${incoming.headers.host}`);
    const response = await answer(new Request(url, { method: incoming.method, headers, body, signal: left.signal }));
    outgoing.writeHead(response.status, Object.fromEntries(response.headers));
    outgoing.flushHeaders();
    if (!response.body) return outgoing.end();
    Readable.fromWeb(response.body).on('error', () => outgoing.destroy()).pipe(outgoing);
}

const listener = createServer((incoming, outgoing) =>
    serve(incoming, outgoing).catch(error => {
        console.error(error);
        outgoing.destroy();
    }),
);
// The suite does not repeat an answer to a question that meets a connection just as it is closed for being idle.
listener.keepAliveTimeout = 0;
listener.listen(0, '127.0.0.1', () => console.log(`listening on ${listener.address().port}`));
