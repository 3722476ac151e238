// The client of the conformance suite: the official client, connected to `mendline run` over stdio.
//
//     conformance-client.mjs MENDLINE URL
//
// The suite passes the scenario and its credentials in variables. The client performs the handshake, reads the tools
// and calls one. When Mendline answers that a login is needed, the client waits for the login that Mendline has begun
// by itself; if there is none, it runs `mendline login`, as a person would.

import { spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { Client } from '@modelcontextprotocol/client';
import { StdioClientTransport as Stdio } from '@modelcontextprotocol/client/stdio';
import { Client as LegacyClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as LegacyStdio } from '@modelcontextprotocol/sdk/client/stdio.js';

const NEEDS_LOGIN = -31008;
const LOGINS = 2;
// The times that the client waits for a login in the browser.
const WAITS = 100;
const WAIT_MS = 200;
const NOTICED_MS = 5000;

const [mendline, url] = process.argv.slice(2);
const scenario = process.env.MCP_CONFORMANCE_SCENARIO ?? '';
const context = JSON.parse(process.env.MCP_CONFORMANCE_CONTEXT ?? '{}');
const isModern = (process.env.MCP_CONFORMANCE_PROTOCOL_VERSION ?? '') >= '2026';
const home = mkdtempSync(join(tmpdir(), 'mendline-suite-'));
const visits = join(home, 'visits');

const sleep = ms => new Promise(done => setTimeout(done, ms));

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

/** The facts about a failure, in an error or in the result of a tool. */
function facts(failure) {
    return failure?.data ?? failure?._meta?.['dev.mendline/failure'] ?? {};
}

function needsLogin(failure) {
    // The modern client hides the error of its handshake behind one of its own.
    const isHandshake = failure?.code === 'ERA_NEGOTIATION_FAILED';
    return isHandshake || failure?.code === NEEDS_LOGIN || facts(failure).cause === 'needs_login';
}

/** Waits for the login that Mendline has begun, or logs in. */
async function login(env, config, state, failure) {
    if (facts(failure).reason === 'login_pending') {
        if (state.waits++ >= WAITS) throw new Error('the login in the browser does not end');
        return sleep(WAIT_MS);
    }
    // A running Mendline finds a new login within a second or two.
    const isRunning = failure?.code !== 'ERA_NEGOTIATION_FAILED';
    if (isRunning && Date.now() - state.loggedIn < NOTICED_MS) return sleep(WAIT_MS);
    if (state.logins++ >= LOGINS) throw new Error('the server wants more logins');
    const child = spawn(mendline, ['login', '--config', config, 'suite'], { env, stdio: ['ignore', 2, 2] });
    const code = await new Promise(done => child.on('close', done));
    if (code !== 0) throw new Error(`mendline login failed (${code})`);
    state.loggedIn = Date.now();
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
        await login(env, config, state, result);
    }
}

/** Connects the client of the era of the scenario. */
async function connect(transport) {
    const info = { name: 'conformance', version: '1.0.0' };
    if (!isModern) {
        const client = new LegacyClient(info, { capabilities: {} });
        await client.connect(transport(LegacyStdio));
        return client;
    }
    const client = new Client(info, { capabilities: {}, versionNegotiation: { mode: { pin: '2026-07-28' } } });
    await client.connect(transport(Stdio));
    return client;
}

async function main() {
    const config = join(home, 'mcp.json');
    const server = auth();
    writeFileSync(config, JSON.stringify({ mcpServers: { suite: { url, ...(server && { auth: server }) } } }), { mode: 0o600 });
    const env = environment();
    // The modern client starts a second, short-lived process for its handshake, which could not end a login of its own.
    const args = ['run', '--config', config, ...(isModern ? ['--login', 'never'] : []), 'suite'];
    const state = { waits: 0, logins: 0, loggedIn: 0 };
    // The handshake of the modern era may need a login, too.
    const client = await perform(env, config, state, () =>
        connect(Stdio => new Stdio({ command: mendline, args, env, stderr: 'inherit' })),
    );
    try {
        await perform(env, config, state, () => client.listTools());
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
