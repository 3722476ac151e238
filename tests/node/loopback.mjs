// Loaded before a server that we did not write, so that it can be started beside others of its kind.
//
// `server-everything` listens on every address of the machine and prints the port that it was told, which says nothing when
// it was told to take any. Here every listener keeps to the loopback address and prints the port that it got.

import { Server } from 'node:net';

const listen = Server.prototype.listen;

Server.prototype.listen = function (port, ...rest) {
    this.once('listening', () => console.log(`listening on ${this.address().port}`));
    return listen.call(this, port, '127.0.0.1', ...rest);
};
