// A browser without pages: opens an address, follows its redirects, and ends.
//
//     browser.mjs LOG ADDRESS
//
// Each visit adds a line to the log when it begins and one when it ends, so that another program knows that a login is
// under way.

import { appendFileSync } from 'node:fs';

const [log, address] = process.argv.slice(2);
appendFileSync(log, 'begun\n');
try {
    const response = await fetch(address, { signal: AbortSignal.timeout(10_000) });
    await response.text();
    appendFileSync(log, `ended ${response.status}\n`);
} catch (why) {
    appendFileSync(log, `ended ${why.cause?.code ?? why.name}\n`);
}
