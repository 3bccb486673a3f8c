// Requests to granted hosts, by the part of wasi:http that the host gives.
import { handle } from "wasi:http/outgoing-handler@0.2.12";
import { Fields, IncomingBody, OutgoingBody, OutgoingRequest } from "wasi:http/types@0.2.12";

import { failure } from "./answers.js";

const METHODS = ["get", "head", "post", "put", "delete", "connect", "options", "trace", "patch"];
const CHUNK_BYTES = 4096;

/**
 * Sends a request to `https://HOST/PATH`; gives `{ status, headers, body }`, with the headers as pairs of texts and the body
 * as bytes. Throws a failure where there is no answer.
 */
export function send(method, url, { headers = [], body = new Uint8Array() } = {}) {
  try {
    return exchange(method, url, headers, body);
  } catch (error) {
    throw failure("unavailable", `${method} ${url}: ${reason(error)}`);
  }
}

/** The same, which throws the errors of wasi:http, and the name of a part of the request that is not valid. */
export function exchange(method, url, headers, body) {
  const fields = new Fields();
  for (const [name, value] of headers) fields.append(name, new TextEncoder().encode(value));
  const [, scheme, authority, path] = /^(https?):\/\/([^/]*)(.*)$/s.exec(url) ?? ["", "https", url, ""];
  const request = new OutgoingRequest(fields);
  part("method", () => request.setMethod(methodOf(method)));
  part("scheme", () => request.setScheme({ tag: scheme === "http" ? "HTTP" : "HTTPS" }));
  part("authority", () => request.setAuthority(authority));
  part("path", () => request.setPathWithQuery(path || "/"));
  const outgoing = body.length > 0 ? request.body() : undefined;
  return using(handle(request, undefined), (future) => {
    if (outgoing) write(outgoing, body);
    using(future.subscribe(), (ready) => ready.block());
    const answer = future.get();
    if (answer.tag !== "ok" || answer.val.tag !== "ok") throw answer.val?.val;
    return using(answer.val.val, read);
  });
}

function methodOf(name) {
  const tag = name.toLowerCase();
  return METHODS.includes(tag) ? { tag } : { tag: "other", val: name };
}

function part(name, set) {
  try {
    set();
  } catch {
    throw name;
  }
}

function write(outgoing, body) {
  using(outgoing.write(), (stream) => {
    for (let at = 0; at < body.length; at += CHUNK_BYTES) stream.blockingWriteAndFlush(body.subarray(at, at + CHUNK_BYTES));
  });
  OutgoingBody.finish(outgoing, undefined);
}

function read(response) {
  const decoder = new TextDecoder();
  const headers = using(response.headers(), (fields) => fields.entries().map(([name, value]) => [name, decoder.decode(value)]));
  const incoming = response.consume();
  const parts = using(incoming.stream(), (stream) => {
    const parts = [];
    for (;;) {
      try {
        parts.push(stream.blockingRead(65536n));
      } catch (error) {
        if ((error.payload ?? error)?.tag === "closed") return parts;
        throw error;
      }
    }
  });
  dispose(IncomingBody.finish(incoming));
  const body = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    body.set(part, at);
    at += part.length;
  }
  return { status: response.status(), headers, body };
}

/** Does something with a handle and lets go of it. */
function using(handle, work) {
  try {
    return work(handle);
  } finally {
    dispose(handle);
  }
}

function dispose(handle) {
  handle[Symbol.dispose ?? Symbol.for("dispose")]();
}

/** The host's own words for an error, or the error's name in wasi:http. */
function reason(error) {
  const thrown = error?.payload ?? error;
  if (typeof thrown === "string") return `the ${thrown} of the request is not valid`;
  if (thrown?.tag === "internal-error" && thrown.val) return thrown.val;
  return thrown?.val ? `${thrown.tag} (${thrown.val})` : String(thrown?.tag ?? thrown);
}
