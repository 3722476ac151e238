// The client of the conformance suite: the official client, connected to `mendline run` over stdio.
//
//     conformance-client.mjs MENDLINE URL
//
// The suite passes the scenario and its credentials in variables. The client performs the handshake, reads the tools
// and calls one. When Mendline answers that a login is needed, the client waits for the login that Mendline has begun
// by itself; if there is none, it runs `mendline login`, as a person would.

import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';

const NEEDS_LOGIN = -31008;
// The time in which Mendline opens the browser by itself, if it does.
const OPENS_MS = 1500;
const LOGINS = 2;

const [mendline, url] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? '';
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const home = mkdtempSync(join(tmpdir(), 'mendline-suite-'));
const visits = join(home, 'visits');

const sleep = ms => new Promise(done => setTimeout(done, ms));
const count = word => (existsSync(visits) ? readFileSync(visits, 'utf8').split('\n').filter(line => line.startsWith(word)).length : 0);

/** The source of the credential for this scenario. */
function auth() {
    if (scenario.startsWith('auth/client-credentials')) {
        const key = join(home, 'key.pem');
        if (context.private_key_pem) writeFileSync(key, context.private_key_pem, { mode: 0o600 });
        return {
            type: 'clientCredentials',
            clientId: context.client_id,
            ...(context.client_secret && { clientSecret: context.client_secret }),
            ...(context.private_key_pem && { privateKey: key, algorithm: context.signing_algorithm }),
        };
    }
    if (scenario === 'auth/basic-cimd') {
        return { type: 'oauth', clientMetadataUrl: 'https://conformance-test.local/client-metadata.json' };
    }
    if (context.client_id) {
        return { type: 'oauth', clientId: context.client_id, clientSecret: context.client_secret };
    }
    return undefined;
}

/** The variables of Mendline: directories of its own, and a browser that needs no person. */
function environment() {
    const browser = join(home, 'browser');
    const script = join(dirname(fileURLToPath(import.meta.url)), 'browser.mjs');
    writeFileSync(browser, `#!/bin/sh\nexec "${process.execPath}" "${script}" "${visits}" "$@"\n`, { mode: 0o755 });
    const runtime = join(home, 'run');
    mkdirSync(runtime, { mode: 0o700 });
    const { PATH } = process.env;
    return { PATH, HOME: home, XDG_RUNTIME_DIR: runtime, TMPDIR: home, BROWSER: browser };
}

function needsLogin(failure) {
    return failure?.code === NEEDS_LOGIN || failure?._meta?.['dev.mendline/failure']?.code === NEEDS_LOGIN;
}

/** Waits for the login that Mendline has begun, or logs in. */
async function login(env, config, state) {
    const before = state.visits;
    for (let waited = 0; waited < OPENS_MS && count('begun') === before; waited += 50) await sleep(50);
    if (count('begun') > before) {
        while (count('ended') < count('begun')) await sleep(50);
        state.visits = count('begun');
        // The exchange of the code follows the visit.
        await sleep(300);
        return;
    }
    if (state.logins++ >= LOGINS) throw new Error('the server wants more logins');
    const child = spawn(mendline, ['login', '--config', config, 'suite'], { env, stdio: ['ignore', 2, 2] });
    const code = await new Promise(done => child.on('close', done));
    state.visits = count('begun');
    if (code !== 0) throw new Error(`mendline login failed (${code})`);
}

/** Performs an operation, and again after each login that it needs. */
async function perform(env, config, state, operation) {
    for (;;) {
        let result;
        try {
            result = await operation();
        } catch (why) {
            if (!needsLogin(why)) throw why;
            result = why;
        }
        if (!needsLogin(result)) {
            if (result.isError) throw new Error(JSON.stringify(result));
            return result;
        }
        await login(env, config, state);
    }
}

async function main() {
    const config = join(home, 'mcp.json');
    const server = auth();
    writeFileSync(config, JSON.stringify({ mcpServers: { suite: { url, ...(server && { auth: server }) } } }), { mode: 0o600 });
    const env = environment();
    const args = ['run', '--config', config, 'suite'];
    const transport = new StdioClientTransport({ command: mendline, args, env, stderr: 'inherit' });
    const client = new Client({ name: 'conformance', version: '1.0.0' }, { capabilities: {} });
    await client.connect(transport);
    const state = { visits: 0, logins: 0 };
    try {
        await perform(env, config, state, async () => {
            const list = await client.listTools();
            // A provisional list is empty until the server has appeared.
            return list.tools.length === 0 ? { _meta: { 'dev.mendline/failure': { code: NEEDS_LOGIN } } } : list;
        });
        await perform(env, config, state, () => client.callTool({ name: 'test-tool', arguments: {} }));
    } finally {
        await client.close();
    }
}

try {
    await main();
} catch (why) {
    console.error(why);
    process.exitCode = 1;
} finally {
    if (!process.env.MENDLINE_KEEP) rmSync(home, { recursive: true, force: true });
}
