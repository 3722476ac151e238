// Measures the time that the launcher adds to the start of Node: medians of alternating runs.
// Usage: node startup.mjs LAUNCHER LIMIT   LIMIT is in milliseconds. Prints the result; exit code 1 above the limit.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';

const [launcher, limit] = process.argv.slice(2);
const folder = mkdtempSync(path.join(tmpdir(), 'mendline-startup-'));
const nothing = path.join(folder, 'nothing.js');
writeFileSync(nothing, '');

const took = (script) => {
  const begin = process.hrtime.bigint();
  const done = spawnSync(process.execPath, [script, '--version'], { stdio: 'ignore' });
  if (done.status !== 0) throw new Error(`${script}: ${done.status ?? done.signal}`);
  return Number(process.hrtime.bigint() - begin) / 1e6;
};
const sorted = (numbers) => numbers.sort((one, other) => one - other);
const median = (numbers) => sorted(numbers)[numbers.length >> 1];

// Other work on the machine can only add time, so one round within the limit is enough, by its medians or by the fastest
// runs.
let added;
for (let round = 0; round < 3 && !(added <= limit); round += 1) {
  const times = { node: [], launcher: [] };
  for (let run = 0; run < 15; run += 1) {
    times.node.push(took(nothing));
    times.launcher.push(took(launcher));
  }
  const [node, all] = [median(times.node), median(times.launcher)];
  added = Math.min(all - node, times.launcher[0] - times.node[0]);
  console.log(`Node ${process.version}: ${node.toFixed(1)} ms alone, ${all.toFixed(1)} ms with the launcher and the program (${(all / node).toFixed(2)} x)`);
}
rmSync(folder, { recursive: true });
process.exitCode = added <= limit ? 0 : 1;
