#!/usr/bin/env node
'use strict';
// Starts the program of the package for this platform, and is the only JavaScript in the package.
//
// Where Node has `process.execve`, this process becomes the program: one process, and signals, exit codes and stdio
// need no forwarding. Elsewhere the program is a child with the same stdio; signals go to it, and its end becomes the
// end of this process.

const fs = require('fs');
const path = require('path');

const PROGRAM = `@mendline/${process.platform}-${process.arch}`;

function fail(problem, next) {
  fs.writeSync(2, `mendline: ${problem}\n${next}\n`);
  process.exit(1);
}

// The path of the program, or an error that names the cause.
function locate() {
  let file;
  try {
    file = require.resolve(`${PROGRAM}/bin/mendline`);
  } catch {
    explainMissing();
  }
  try {
    fs.accessSync(file, fs.constants.X_OK);
  } catch (error) {
    fail(`cannot run ${file}: ${error.code}`, `Make it executable, or reinstall with: npm install mendline`);
  }
  return file;
}

function explainMissing() {
  const offered = Object.keys(require('../package.json').optionalDependencies);
  const platforms = offered.map((name) => name.slice('@mendline/'.length)).join(', ');
  if (!offered.includes(PROGRAM)) {
    fail(
      `there is no program for ${process.platform}-${process.arch}; there are programs for ${platforms}`,
      'https://mendline.dev lists the supported platforms.',
    );
  }
  if (process.platform === 'linux' && !hasGlibc()) {
    fail('this system has no glibc, which the program needs', 'Use an image with glibc (Debian, Ubuntu, Fedora), or build from source.');
  }
  fail(
    `the package ${PROGRAM} is not installed`,
    'npm leaves it out with --omit=optional, and when a lock file was made on another platform.\n' +
      'Reinstall with: npm install --include=optional mendline',
  );
}

function hasGlibc() {
  if (!process.report) return true;
  process.report.excludeNetwork = true;
  return Boolean(process.report.getReport().header.glibcVersionRuntime);
}

// `mendline wrap` writes entries that go on working, and a file in the cache of npx does not. The caches of pnpm and bun
// for the same purpose count as that of npx.
function launcher() {
  const isCache = (name) => name === '_npx' || name === 'dlx' || name.startsWith('dlx-') || name.startsWith('bunx-');
  return __dirname.split(path.sep).some(isCache) ? 'npx' : 'npm';
}

// Signals that the program handles or that end it. A terminal sends INT and QUIT to the whole foreground group, so the
// program has them already; a second INT would end it at once.
const FORWARDED = ['SIGTERM', 'SIGHUP', 'SIGUSR1', 'SIGUSR2', 'SIGINT', 'SIGQUIT'];
const FROM_TERMINAL = ['SIGINT', 'SIGQUIT'];

function supervise(file, args, env) {
  const isTerminal = [0, 1, 2].some((fd) => require('tty').isatty(fd));
  // Listeners run after this function, so a signal that comes before the program is started reaches it, too.
  let child;
  for (const signal of FORWARDED) {
    const isReceived = isTerminal && FROM_TERMINAL.includes(signal);
    process.on(signal, () => isReceived || child.kill(signal));
  }
  child = require('child_process').spawn(file, args, { env, stdio: 'inherit' });
  child.on('error', (error) => fail(`cannot start ${file}: ${error.message}`, 'Reinstall with: npm install mendline'));
  child.on('exit', (code, signal) => {
    if (signal === null) process.exit(code);
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
    // The signal ends this process; the timer keeps it alive until then.
    setTimeout(() => process.exit(1), 1000);
  });
}

const file = locate();
const args = process.argv.slice(2);
const env = { ...process.env, MENDLINE_LAUNCHER: launcher() };
if (process.execve) process.execve(file, [file, ...args], env);
else supervise(file, args, env);
