// Kills a server once, in the middle of its work: `node --import 'crash.mjs?MARKER&FUNCTION' SCRIPT …`.
//
// The process gets SIGKILL when FUNCTION of `node:fs/promises` has ended for the first time. The file MARKER shows that
// this has happened, so that the next process of the server goes on.
import { closeSync, existsSync, openSync, promises } from "node:fs";
import { syncBuiltinESMExports } from "node:module";

const [marker, name] = new URL(import.meta.url).search.slice(1).split("&").map(decodeURIComponent);
const original = promises[name];
promises[name] = async (...args) => {
  const result = await original(...args);
  if (!existsSync(marker)) {
    closeSync(openSync(marker, "w"));
    process.kill(process.pid, "SIGKILL");
    await new Promise(() => {});
  }
  return result;
};
syncBuiltinESMExports();
