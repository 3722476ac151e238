// Loaded before `server-everything`, so that several of them can run at once and none depends on the speed of the machine.
//
// The server listens on every address and prints its configured port, which is 0 for a free port. Here every listener uses
// the loopback address and prints its real port.

import { ServerResponse } from 'node:http';
import { Server } from 'node:net';

const listen = Server.prototype.listen;

Server.prototype.listen = function (port, ...rest) {
    this.once('listening', () => console.log(`listening on ${this.address().port}`));
    return listen.call(this, port, '127.0.0.1', ...rest);
};

// It requests roots a while after the handshake. Without an open stream the request is lost. Here each such request waits
// for a stream.

const ASKS_FOR_ROOTS = 350;
const isRemote = process.argv.at(-1) !== 'stdio';
const waiting = [];
let streams = 0;

function ask() {
    while (streams > 0 && waiting.length > 0) {
        streams -= 1;
        waiting.shift()();
    }
}

const writeHead = ServerResponse.prototype.writeHead;

ServerResponse.prototype.writeHead = function (status, ...rest) {
    const written = writeHead.call(this, status, ...rest);
    if (this.req.method === 'GET' && status === 200) {
        streams += 1;
        // The response head must be sent first.
        setImmediate(ask);
    }
    return written;
};

// Timers of minutes belong to calls that are cancelled: they do not keep the process alive. Messages that it repeats every
// few seconds are sent only once.

const MINUTES = 60_000;
const { setTimeout, setInterval } = globalThis;

globalThis.setTimeout = (done, delay, ...rest) => {
    if (isRemote && delay === ASKS_FOR_ROOTS) return setTimeout(() => (waiting.push(done), ask()), delay);
    const timer = setTimeout(done, delay, ...rest);
    return delay >= MINUTES ? timer.unref() : timer;
};

globalThis.setInterval = (done, _, ...rest) => setInterval(done, 2 ** 31 - 1, ...rest).unref();
