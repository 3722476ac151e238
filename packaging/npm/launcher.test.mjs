// Tests the launcher with programs that report what they get. Run with every Node to support: node --test
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { after, test } from 'node:test';

const launcher = path.join(import.meta.dirname ?? path.dirname(new URL(import.meta.url).pathname), 'mendline.js');
const platform = `${process.platform}-${process.arch}`;
const folder = mkdtempSync(path.join(tmpdir(), 'mendline-launcher-'));
after(() => rmSync(folder, { recursive: true }));
let count = 0;

// Installs the launcher with this program, a shell script. Returns the path of the launcher.
function install(program, below = '', mode = 0o755) {
  const modules = path.join(folder, String(count++), below, 'node_modules');
  mkdirSync(path.join(modules, 'mendline/bin'), { recursive: true });
  copyFileSync(launcher, path.join(modules, 'mendline/bin/mendline.js'));
  const manifest = { optionalDependencies: { '@mendline/linux-x64': '1', '@mendline/linux-arm64': '1' } };
  writeFileSync(path.join(modules, 'mendline/package.json'), JSON.stringify(manifest));
  if (program !== undefined) {
    const bin = path.join(modules, '@mendline', platform, 'bin');
    mkdirSync(bin, { recursive: true });
    writeFileSync(path.join(bin, 'mendline'), `#!/bin/sh\n${program}\n`);
    chmodSync(path.join(bin, 'mendline'), mode);
  }
  return path.join(modules, 'mendline/bin/mendline.js');
}

const run = (script, args = [], options = {}) =>
  spawnSync(process.execPath, [...(options.flags ?? []), script, ...args], { encoding: 'utf8', ...options });

// Starts the launcher and resolves once the program has printed a line.
async function start(program) {
  const child = spawn(process.execPath, [install(program)], { stdio: ['pipe', 'pipe', 'inherit'] });
  const end = new Promise((resolve) => child.once('exit', (code, signal) => resolve({ code, signal })));
  const line = await new Promise((resolve) => child.stdout.once('data', (data) => resolve(String(data).trim())));
  return { child, line, end };
}

test('arguments_input_and_exit_code_pass_through', () => {
  const done = run(install('printf "%s|" "$@"; cat; exit 7'), ['a b', '--c', ''], { input: 'input' });
  assert.equal(done.stdout, 'a b|--c||input');
  assert.equal(done.status, 7);
  assert.equal(done.stderr, '');
});

test('death_by_signal_is_the_death_of_the_launcher', () => {
  for (const signal of ['TERM', 'KILL', 'USR1', 'HUP']) {
    assert.equal(run(install(`kill -${signal} $$`)).signal, `SIG${signal}`);
  }
});

test('signals_reach_the_program', async () => {
  for (const signal of ['TERM', 'HUP', 'INT', 'QUIT', 'USR1', 'USR2']) {
    const { child, end } = await start(`trap 'exit 5' ${signal}; echo ready; while :; do sleep 0.01; done`);
    child.kill(`SIG${signal}`);
    assert.deepEqual(await end, { code: 5, signal: null }, signal);
  }
});

test('process_is_replaced_where_node_can', async () => {
  const { child, line, end } = await start('echo $$; cat');
  assert.equal(Number(line) === child.pid, typeof process.execve === 'function');
  child.stdin.end();
  await end;
});

test('launcher_names_itself_to_the_program', () => {
  assert.equal(run(install('printf %s "$MENDLINE_LAUNCHER"')).stdout, 'npm');
  for (const cache of ['_npx/0123', 'pnpm/dlx/0123', 'bunx-0-mendline@latest']) {
    assert.equal(run(install('printf %s "$MENDLINE_LAUNCHER"', cache)).stdout, 'npx', cache);
  }
});

test('unsupported_platform_is_named', () => {
  const preload = path.join(folder, 'platform.cjs');
  writeFileSync(preload, "Object.defineProperty(process, 'platform', { value: 'win32' });");
  const done = run(install(undefined), [], { flags: ['--require', preload] });
  assert.equal(done.status, 1);
  assert.match(done.stderr, /no program for win32-.*; there are programs for linux-x64, linux-arm64/);
});

test('missing_package_names_the_command_that_helps', () => {
  const done = run(install(undefined));
  assert.equal(done.status, 1);
  assert.match(done.stderr, /@mendline\/linux-\w+ is not installed\n.*\n.*npm install --include=optional mendline/);
});

test('program_without_permission_is_named', { skip: !process.getuid }, () => {
  const done = run(install('exit 0', '', 0o644));
  assert.equal(done.status, 1);
  assert.match(done.stderr, /cannot run .*bin\/mendline: EACCES/);
});
