// `{{name}}`: finds the lines that hold a mark, such as TODO, draws them, and settles one of them.
//
// What stands here at the top runs once, when the skill is built; each call starts from there.
import { attach, cite, progress, text as say } from "tool:skill/answer@1.0.0";
import { replace } from "tool:skill/proposal@1.0.0";
import { list } from "tool:skill/repository@1.0.0";

import { answering, failure } from "./answers.js";
import { readBytes, readText, writeText } from "./files.js";
import { sha256 } from "./sha256.js";

const mark = { type: "string", minLength: 1, description: "The mark to look for. Default: TODO." };

const findParameters = {
  type: "object",
  properties: {
    mark,
    under: {
      type: "string",
      description: "A file or a folder to look in, relative to the repository root. Default: all of it.",
    },
  },
  required: [],
  additionalProperties: false,
};

const doneParameters = {
  type: "object",
  properties: {
    path: { type: "string", description: "File with the mark, relative to the repository root." },
    line: { type: "integer", minimum: 1, description: "Line of the mark, counted from 1." },
    mark,
  },
  required: ["path", "line"],
  additionalProperties: false,
};

// The schema of the details, which scripts and other agents read.
const output = {
  type: "object",
  properties: { marks: { type: "array", items: { type: "object" } } },
  required: ["marks"],
};

const functions = {
  {{name}}: {
    description: "Finds the lines that hold a mark, such as TODO. Use it to see what is left to do.",
    parameters: findParameters,
    effects: ["read-repository"],
    metadata: { title: "Find marks", tags: ["todo"], output },
    run({ mark = "TODO", under = "" }) {
      const { marks, searched } = search(mark, under);
      for (const { path, line } of marks.slice(0, 100)) cite({ path, line });
      const lines = marks.map(({ path, line, text }) => `${path}:${line}: ${text}`);
      const files = new Set(marks.map(({ path }) => path)).size;
      lines.push(
        marks.length === 0
          ? `No \`${mark}\` in ${counted(searched, "file")}.`
          : `${counted(marks.length, "mark")} in ${counted(files, "file")}.`,
      );
      return { text: lines.join("\n"), details: { marks } };
    },
  },

  {{name}}_chart: {
    description: "Draws how many lines of each file hold a mark, such as TODO, as a diagram.",
    parameters: findParameters,
    effects: ["read-repository"],
    run({ mark = "TODO", under = "" }) {
      const { marks, searched } = search(mark, under);
      const files = new Map();
      for (const { path } of marks) files.set(path, (files.get(path) ?? 0) + 1);
      let diagram = `pie title ${mark}\n`;
      for (const [path, count] of files) {
        // A person sees this line at once; it is a part of the answer, too.
        say(`${path}: ${count}\n`);
        diagram += `"${path}" : ${count}\n`;
      }
      if (files.size > 0) {
        const content = new TextEncoder().encode(diagram);
        attach({ mediaType: "text/vnd.mermaid", alternative: `a pie of the files with \`${mark}\``, content });
      }
      return { text: counted(searched, "file") };
    },
  },

  {{name}}_done: {
    description: "Settles a mark, such as TODO, in one line of a file: it becomes DONE.",
    parameters: doneParameters,
    effects: ["read-repository", "write-repository"],
    run({ path, line, mark = "TODO" }) {
      const content = readBytes(path);
      const lines = new TextDecoder().decode(content).split("\n");
      if (!lines[line - 1]?.includes(mark)) throw failure("not-found", `line ${line} of \`${path}\` holds no \`${mark}\``);
      lines[line - 1] = lines[line - 1].replace(mark, "DONE");
      // The host compares the digest with the file again when it commits the change.
      replace(path, sha256(content));
      writeText(path, lines.join("\n"));
      return { text: `Settled line ${line} of \`${path}\`.` };
    },
  },
};

export const handler = answering(
  { name: "{{name}}", version: "0.1.0", description: "Finds, draws and settles marks such as TODO." },
  functions,
);

/** The marks beneath a folder, and the number of files that were searched. */
function search(mark, under) {
  const marks = [];
  let searched = 0;
  for (const path of paths(under)) {
    let text;
    try {
      text = readText(path);
    } catch {
      continue; // What is listed may be gone, or may not be text.
    }
    text.split("\n").forEach((line, at) => {
      if (line.includes(mark)) marks.push({ path, line: at + 1, text: line.trim() });
    });
    searched += 1;
  }
  progress(BigInt(searched), BigInt(searched), "files searched");
  return { marks, searched };
}

/** All files that the user sees. */
function paths(under) {
  const paths = [];
  let after;
  do {
    const page = list({ under, recursive: true, globs: [], after });
    paths.push(...page.entries.filter((entry) => entry.kind === "file").map((entry) => entry.path));
    after = page.next;
  } while (after !== undefined);
  return paths;
}

function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
