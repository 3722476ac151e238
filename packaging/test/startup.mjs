// Measures the time that the launcher adds to the start of Node.
//
// In each turn, Node runs an empty script, and Node runs the launcher, which runs the program. The launcher adds the
// median of the differences over the turns of a round; the time of the program is part of it. Other work on the machine
// can only add time, so the best of several rounds counts. On a machine that is so busy that Node waits for a processor
// most of the time, differences of times mean nothing; there the processor time that the launcher adds decides.
// Usage: node startup.mjs LAUNCHER PROGRAM LIMIT   LIMIT is in milliseconds. Prints the result; exit code 1 above it.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const ROUNDS = 4;
const TURNS = 15;

// Node alone takes little more than its processor time, unless it has to wait.
const BUSY = 1.6;

const [launcher, program, limit] = process.argv.slice(2);
const folder = mkdtempSync(path.join(tmpdir(), 'mendline-startup-'));
const nothing = path.join(folder, 'nothing.js');
writeFileSync(nothing, '');

// The processor time of all ended children in milliseconds. The kernel counts it in hundredths of a second.
function spent() {
  const stat = readFileSync('/proc/self/stat', 'utf8');
  const [user, system] = stat.slice(stat.lastIndexOf(')') + 2).split(' ').slice(13, 15);
  return (Number(user) + Number(system)) * 10;
}

// One start: its time, and its processor time, which is exact only as a sum over many starts.
function start(file, args) {
  const [begin, before] = [process.hrtime.bigint(), spent()];
  const done = spawnSync(file, args, { stdio: 'ignore' });
  if (done.status !== 0) throw new Error(`${file} ${args.join(' ')}: ${done.status ?? done.signal}`);
  return { time: Number(process.hrtime.bigint() - begin) / 1e6, processor: spent() - before };
}

const median = (numbers) => [...numbers].sort((one, other) => one - other)[numbers.length >> 1];
const mean = (numbers) => numbers.reduce((sum, number) => sum + number, 0) / numbers.length;

function round() {
  const turns = Array.from({ length: TURNS }, () => ({
    node: start(process.execPath, [nothing]),
    launched: start(process.execPath, [launcher, '--version']),
    alone: start(program, ['--version']),
  }));
  const time = (kind) => median(turns.map((turn) => turn[kind].time));
  const processor = (kind) => mean(turns.map((turn) => turn[kind].processor));
  return {
    node: time('node'),
    launched: time('launched'),
    alone: time('alone'),
    added: median(turns.map((turn) => turn.launched.time - turn.node.time)),
    processor: processor('launched') - processor('node'),
    isBusy: time('node') > BUSY * processor('node'),
  };
}

try {
  const rounds = [];
  const isWithin = (one) => one.added <= limit || (one.isBusy && one.processor <= limit);
  do {
    rounds.push(round());
  } while (!isWithin(rounds.at(-1)) && rounds.length < ROUNDS);
  const last = rounds.at(-1);
  const ms = (time) => `${time.toFixed(1)} ms`;
  console.log(
    `Node ${process.version}: the launcher adds ${ms(last.added)}, ${ms(last.processor)} of processor time (medians: Node alone ${ms(last.node)}, with launcher and program ${ms(last.launched)}, the program alone ${ms(last.alone)}; round ${rounds.length} of at most ${ROUNDS}, ${TURNS} turns each${last.isBusy ? '; the machine is busy' : ''})`,
  );
  process.exitCode = isWithin(last) ? 0 : 1;
} finally {
  rmSync(folder, { recursive: true });
}
