// Loaded before `server-everything`, which we did not write, so that it can be started beside others of its kind and nothing
// that it does hangs on how fast the machine is.
//
// It listens on every address of the machine and prints the port that it was told, which says nothing when it was told to
// take any. Here every listener keeps to the loopback address and prints the port that it got.

import { ServerResponse } from 'node:http';
import { Server } from 'node:net';

const listen = Server.prototype.listen;

Server.prototype.listen = function (port, ...rest) {
    this.once('listening', () => console.log(`listening on ${this.address().port}`));
    return listen.call(this, port, '127.0.0.1', ...rest);
};

// It asks for roots a while after the greeting, whether or not there is a stream by then on which its question could go, and
// without one the question is lost. Here each such question waits for a stream of its own.

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
        // Not before the stream has its head.
        setImmediate(ask);
    }
    return written;
};

// What takes minutes is meant to be given up: it does not keep the process from ending. What it says every few seconds, it
// says only once.

const MINUTES = 60_000;
const { setTimeout, setInterval } = globalThis;

globalThis.setTimeout = (done, delay, ...rest) => {
    if (isRemote && delay === ASKS_FOR_ROOTS) return setTimeout(() => (waiting.push(done), ask()), delay);
    const timer = setTimeout(done, delay, ...rest);
    return delay >= MINUTES ? timer.unref() : timer;
};

globalThis.setInterval = (done, _, ...rest) => setInterval(done, 2 ** 31 - 1, ...rest).unref();
