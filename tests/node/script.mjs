// The script's operations, for both majors of the official TypeScript client.
//
//     client-vN.mjs SCRIPT (legacy|modern) (COMMAND [ARGS…] | URL)
//
// A URL is dialed over Streamable HTTP, or over the 2024-11-05 transport if its path ends in `/sse`.
//
// The operations are performed in order. Then one JSON object is printed: the result of each operation, and the requests and
// notifications of the server. Ids, times and other nondeterministic values are left out, so that two runs can be compared
// as text. Where the majors differ, the caller passes an adapter that connects, calls a tool and sends a raw request.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';

// Longer than any script takes on a busy machine. Reaching it is an error, not a hang.
const PATIENCE_MS = 90_000;
const UPDATED = 'notifications/resources/updated';
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

export const ANSWERS = {
    'sampling/createMessage': { role: 'assistant', content: { type: 'text', text: 'four' }, model: 'arithmetic', stopReason: 'endTurn' },
    'elicitation/create': { action: 'accept', content: { colour: 'blue', name: 'Ada', check: true } },
    'roots/list': { roots: [{ uri: 'file:///srv/data', name: 'data' }] },
};

export const CAPABILITIES = { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } };

/** The notifications and requests of the server, and the answers to the requests. */
export class Listener {
    received = {};
    #waiting = [];

    note(method, params) {
        (this.received[method] ??= []).push(params ?? null);
        this.#waiting = this.#waiting.filter(wake => !wake());
    }

    /** Answers a request; with a token it sends progress first, and a request that will be cancelled gets only a notification. */
    async answer(client, method, params) {
        const token = params?._meta?.progressToken;
        this.note(method, params && { ...params, _meta: null });
        if (token !== undefined && method === 'sampling/createMessage') {
            await client.notification({ method: 'notifications/progress', params: { progressToken: token, progress: 1, total: 2 } });
        }
        if (params?.message === 'Never mind.') {
            await client.sendRootsListChanged();
            await new Promise(() => {});
        }
        return ANSWERS[method];
    }

    wait(method, count) {
        const enough = () => (this.received[method]?.length ?? 0) >= count;
        return enough() ? undefined : new Promise(done => this.#waiting.push(() => enough() && (done(), true)));
    }
}

/** The transport to a command or a URL, from the caller's major. */
export function transport([server, ...args], { Stdio, Http, Sse }) {
    if (!server.startsWith('http')) return new Stdio({ command: server, args, stderr: 'inherit' });
    return new (server.endsWith('/sse') ? Sse : Http)(new URL(server));
}

class Script {
    constructor(peer, listener, modern) {
        Object.assign(this, { peer, client: peer.client, listener, modern });
    }

    ping() {
        return this.client.ping();
    }

    async list({ what }) {
        const [verb, key] = {
            tools: ['listTools', 'tools'],
            resources: ['listResources', 'resources'],
            templates: ['listResourceTemplates', 'resourceTemplates'],
            prompts: ['listPrompts', 'prompts'],
        }[what];
        const pages = [];
        let cursor;
        do {
            const page = await this.client[verb](cursor === undefined ? undefined : { cursor });
            pages.push(page[key]);
            cursor = page.nextCursor;
        } while (cursor !== undefined);
        return pages;
    }

    async call({ tool, arguments: given, fill, progress, brief, log }, options = {}) {
        let seen = 0;
        let inOrder = true;
        const params = { name: tool, arguments: { ...given } };
        if (fill) params.arguments[fill.argument] = params.arguments[fill.argument].repeat(fill.bytes);
        if (log && this.modern) params._meta = { [LOG_LEVEL]: log };
        if (progress) {
            options.onprogress = step => {
                inOrder &&= step.progress > seen;
                seen = step.progress;
            };
        }
        const result = await this.peer.callTool(params, options);
        // The package drops progress that arrives in one read with the answer, so the amount is nondeterministic.
        if (!brief) return [result, inOrder];
        const said = result.content[0].text;
        return [{ length: said.length, head: said.slice(0, 24), tail: said.slice(-24) }, inOrder];
    }

    together({ calls }) {
        return Promise.all(calls.map(call => this.call(call)));
    }

    /** Cancels a running call: after its first progress, or after another call that was sent later. */
    async cancel({ call, after }) {
        const abort = new AbortController();
        const options = { signal: abort.signal };
        let started;
        const running = new Promise(done => (started = done));
        if (after === 'progress') options.onprogress = started;
        const outcome = this.call(call, options).then(
            () => 'answered',
            () => 'given up',
        );
        await (after === 'progress' ? running : this.call(after));
        abort.abort('given up');
        return [await outcome];
    }

    read({ uri }) {
        return this.client.readResource({ uri });
    }

    /** Subscribes to a resource, has it changed, waits for the notification, and unsubscribes. */
    async watch({ uri, touch }) {
        const before = this.listener.received[UPDATED]?.length ?? 0;
        const subscription = this.modern
            ? await this.client.listen({ resourceSubscriptions: [uri] })
            : void (await this.client.subscribeResource({ uri }));
        const touched = await this.call(touch);
        await this.listener.wait(UPDATED, before + 1);
        await (subscription ? subscription.close() : this.client.unsubscribeResource({ uri }));
        return [touched, this.listener.received[UPDATED].slice(before)];
    }

    /** Subscribes and lets the server end the subscription. */
    async hang_up({ uri, call }) {
        const subscription = await this.client.listen({ resourceSubscriptions: [uri] });
        return [await this.call(call), await subscription.closed];
    }

    async subscribe({ uri }) {
        await this.client.subscribeResource({ uri });
    }

    /** Creates a file at a pause, and continues when the test has created another. */
    async pause({ file }) {
        writeFileSync(`${file}.here`, '');
        while (!existsSync(`${file}.on`)) await new Promise(done => setTimeout(done, 10));
    }

    /** Subscribes in the modern era, pauses, and waits for the next notification. */
    async hold({ uri, file }) {
        const subscription = await this.client.listen({ resourceSubscriptions: [uri] });
        const before = this.listener.received[UPDATED]?.length ?? 0;
        await this.pause({ file });
        await this.listener.wait(UPDATED, before + 1);
        await subscription.close();
        return this.listener.received[UPDATED].slice(before);
    }

    level({ level }) {
        return this.client.setLoggingLevel(level);
    }

    prompt({ name, arguments: given }) {
        return this.client.getPrompt({ name, arguments: given });
    }

    complete({ prompt, argument }) {
        return this.client.complete({ ref: { type: 'ref/prompt', name: prompt }, argument });
    }

    raw({ method }) {
        return this.peer.request({ method });
    }

    async roots_changed() {
        await this.client.sendRootsListChanged();
    }

    await({ method, count }) {
        return this.listener.wait(method, count);
    }
}

export async function run(open) {
    const [file, era, ...server] = process.argv.slice(2);
    const modern = era === 'modern';
    const timer = setTimeout(() => {
        console.error(`the script did not end within ${PATIENCE_MS} ms`);
        process.exit(1);
    }, PATIENCE_MS);
    const listener = new Listener();
    const peer = await open(server, listener, modern);
    const { client } = peer;
    const handshake = [client.getServerCapabilities(), client.getServerVersion(), client.getInstructions()];
    const script = new Script(peer, listener, modern);
    const steps = [];
    for (const step of JSON.parse(readFileSync(file, 'utf8'))) {
        if (step.era && step.era !== era) continue;
        let gave;
        let failed = false;
        try {
            gave = await script[step.do](step);
        } catch (error) {
            failed = true;
            gave = { error: { name: error.name, code: error.code, message: error.message, data: error.data } };
        }
        // A step that fails in both runs would compare equal and prove nothing.
        if (failed !== (step.fails ?? false)) {
            console.error(`${JSON.stringify(step)} gave ${JSON.stringify(gave)}`);
            process.exit(1);
        }
        steps.push([step.do, step.tool ?? null, gave ?? null]);
    }
    await client.close();
    clearTimeout(timer);
    console.log(JSON.stringify({ handshake, steps, received: listener.received }));
}
