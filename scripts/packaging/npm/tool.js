#!/usr/bin/env node
// Runs the binary of the platform package. Signals of a terminal reach both processes, and the exit code is the binary's.
"use strict";
const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const name = `tool-assistant-${process.platform}-${process.arch}`;
let binary;
try {
  binary = require.resolve(`${name}/tool`);
} catch {
  console.error(`[error] There is no binary for ${process.platform} on ${process.arch}: the package ${name} is missing`);
  console.error("hint: on Linux (x64 or arm64) install again without --no-optional; on Windows use WSL 2");
  process.exit(3);
}
const child = spawn(binary, process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => signal === "SIGINT" || child.kill(signal));
}
child.on("error", (error) => {
  console.error(`[error] ${binary} could not be started: ${error.message}`);
  process.exit(3);
});
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
