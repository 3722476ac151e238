// The script's operations, for both majors of the official TypeScript client.
//
//     client-vN.mjs SCRIPT (legacy|modern) (COMMAND [ARGS…] | URL)
//
// A URL is dialed over Streamable HTTP, or over the first revision's transport if its path ends in `/sse`.
//
// The operations are performed one after the other; one JSON object is printed: what the package's API returned for each,
// what the server asked and what it told. Ids, times and other chance are left out, so that two runs can be compared as
// text. Where the majors differ, the caller hands in an adapter: how to open, how to call a tool, how to send a raw request.

import { existsSync, readFileSync, writeFileSync } from 'node:fs';

// Longer than any script takes on a busy machine: reaching it is a failure that says so, not a hang.
const PATIENCE_MS = 90_000;
const UPDATED = 'notifications/resources/updated';
const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';

export const ANSWERS = {
    'sampling/createMessage': { role: 'assistant', content: { type: 'text', text: 'four' }, model: 'arithmetic', stopReason: 'endTurn' },
    'elicitation/create': { action: 'accept', content: { colour: 'blue', name: 'Ada', check: true } },
    'roots/list': { roots: [{ uri: 'file:///srv/data', name: 'data' }] },
};

export const CAPABILITIES = { sampling: {}, elicitation: { form: {} }, roots: { listChanged: true } };

/** All that the server says without being asked, and the answers to what it asks. */
export class Listener {
    received = {};
    #waiting = [];

    note(method, params) {
        (this.received[method] ??= []).push(params ?? null);
        this.#waiting = this.#waiting.filter(wake => !wake());
    }

    /** Answers a question; with a token there is progress first, and one that will be taken back gets a nod only. */
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

/** The way to a server that is named by a command or by a URL, with the transports of the caller's major. */
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
        // Progress that arrives in one read with the answer is dropped by the package, so how much is seen is chance.
        if (!brief) return [result, inOrder];
        const said = result.content[0].text;
        return [{ length: said.length, head: said.slice(0, 24), tail: said.slice(-24) }, inOrder];
    }

    together({ calls }) {
        return Promise.all(calls.map(call => this.call(call)));
    }

    /** Gives a running call up: after its first progress, or after another call that was sent behind it. */
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

    /** Subscribes, has the resource touched, waits for the word, unsubscribes. */
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

    /** Subscribes and has the server end it. */
    async hang_up({ uri, call }) {
        const subscription = await this.client.listen({ resourceSubscriptions: [uri] });
        return [await this.call(call), await subscription.closed];
    }

    async subscribe({ uri }) {
        await this.client.subscribeResource({ uri });
    }

    /** Says by a file that it has come here, and goes on when there is another one. */
    async pause({ file }) {
        writeFileSync(`${file}.here`, '');
        while (!existsSync(`${file}.on`)) await new Promise(done => setTimeout(done, 10));
    }

    /** Subscribes in the modern way, pauses, and waits for the next word about it. */
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
        // A step that fails alike on both ways would compare equal and prove nothing.
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
