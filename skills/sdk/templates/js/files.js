// Files beneath /repo and /stage, by the part of wasi:filesystem that the host gives.
import { getDirectories } from "wasi:filesystem/preopens@0.2.12";

function root(name) {
  for (const [directory, path] of getDirectories()) {
    if (path === name) return directory;
  }
  throw new Error(`there is no ${name}`);
}

/** The bytes of a file of the repository; throws WASI's error code, for example "no-entry". */
export function readBytes(path) {
  const file = root("/repo").openAt({}, path, {}, { read: true });
  const parts = [];
  let size = 0;
  for (;;) {
    const [bytes, end] = file.read(1048576n, BigInt(size));
    parts.push(bytes);
    size += bytes.length;
    if (end || bytes.length === 0) break;
  }
  const whole = new Uint8Array(size);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

/** The text of a file of the repository; throws where it is none. */
export function readText(path) {
  return new TextDecoder("utf-8", { fatal: true }).decode(readBytes(path));
}

/** Proposes a file: creates or replaces it in /stage. */
export function writeText(path, text) {
  const stage = root("/stage");
  const folders = path.split("/").slice(0, -1);
  for (let depth = 1; depth <= folders.length; depth++) {
    try {
      stage.createDirectoryAt(folders.slice(0, depth).join("/"));
    } catch (error) {
      if (String(error?.payload ?? error) !== "exist") throw error;
    }
  }
  const file = stage.openAt({}, path, { create: true, truncate: true }, { write: true });
  const bytes = new TextEncoder().encode(text);
  let at = 0;
  while (at < bytes.length) {
    at += Number(file.write(bytes.subarray(at), BigInt(at)));
  }
}
