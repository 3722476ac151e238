// Measures the time that the launcher adds to the start of Node.
//
// In each turn, Node runs an empty script, and Node runs the launcher, which runs the program. The launcher adds the
// median of the differences over the turns of a round; the time of the program is part of it. Other work on the machine
// slows down both parts of a turn alike and can only add time, so the best of several rounds counts.
// Usage: node startup.mjs LAUNCHER PROGRAM LIMIT   LIMIT is in milliseconds. Prints the result; exit code 1 above it.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const ROUNDS = 5;
const TURNS = 15;

const [launcher, program, limit] = process.argv.slice(2);
const folder = mkdtempSync(path.join(tmpdir(), 'mendline-startup-'));
const nothing = path.join(folder, 'nothing.js');
writeFileSync(nothing, '');

function took(file, args) {
  const begin = process.hrtime.bigint();
  const done = spawnSync(file, args, { stdio: 'ignore' });
  if (done.status !== 0) throw new Error(`${file} ${args.join(' ')}: ${done.status ?? done.signal}`);
  return Number(process.hrtime.bigint() - begin) / 1e6;
}

const median = (numbers) => [...numbers].sort((one, other) => one - other)[numbers.length >> 1];

function round() {
  const turns = Array.from({ length: TURNS }, () => {
    const node = took(process.execPath, [nothing]);
    const launched = took(process.execPath, [launcher, '--version']);
    const alone = took(program, ['--version']);
    return { node, launched, alone, added: launched - node };
  });
  const of = (key) => median(turns.map((turn) => turn[key]));
  return { node: of('node'), launched: of('launched'), alone: of('alone'), added: of('added') };
}

try {
  const rounds = [];
  do {
    rounds.push(round());
  } while (rounds.at(-1).added > limit && rounds.length < ROUNDS);
  const best = rounds.sort((one, other) => one.added - other.added)[0];
  const shown = Object.fromEntries(Object.entries(best).map(([key, time]) => [key, `${time.toFixed(1)} ms`]));
  console.log(
    `Node ${process.version}: the launcher adds ${shown.added} (medians: Node alone ${shown.node}, with launcher and program ${shown.launched}, the program alone ${shown.alone}; ${rounds.length} rounds of ${TURNS})`,
  );
  process.exitCode = best.added <= Number(limit) ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true });
}
