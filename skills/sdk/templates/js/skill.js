// `{{name}}`: finds the lines that hold a mark, such as TODO.
//
// What stands here at the top runs once, when the skill is built; each call starts from there.
import { list } from "tool:skill/repository@1.0.0";

import { readText } from "./files.js";

const parameters = {
  type: "object",
  properties: {
    mark: {
      type: "string",
      minLength: 1,
      description: "The mark to look for. Default: TODO.",
    },
    under: {
      type: "string",
      description: "A file or a folder to look in, relative to the repository root. Default: all of it.",
    },
  },
  required: [],
  additionalProperties: false,
};

const description = "Finds the lines that hold a mark, such as TODO. Use it to see what is left to do.";

const metadata = {
  title: "Find marks",
  tags: ["todo"],
  examples: [{ description: "Everything that is left to do", arguments: {} }],
};

export const handler = {
  describe() {
    return {
      name: "{{name}}",
      version: "0.1.0",
      description,
      functions: [
        {
          name: "{{name}}",
          description,
          parameters: JSON.stringify(parameters),
          effects: ["read-repository"],
          metadata: JSON.stringify(metadata),
        },
      ],
      metadata: undefined,
    };
  },

  call(name, text) {
    const { mark = "TODO", under = "" } = JSON.parse(text);
    return { text: find(mark, under), truncated: false, cursor: undefined, deletions: [], details: undefined };
  },
};

function find(mark, under) {
  const lines = [];
  let files = 0;
  let searched = 0;
  for (const path of paths(under)) {
    let text;
    try {
      text = readText(path);
    } catch {
      continue; // What is listed may be gone, or may not be text.
    }
    const before = lines.length;
    text.split("\n").forEach((line, at) => {
      if (line.includes(mark)) lines.push(`${path}:${at + 1}: ${line.trim()}`);
    });
    files += lines.length > before ? 1 : 0;
    searched += 1;
  }
  if (lines.length === 0) return `No \`${mark}\` in ${counted(searched, "file")}.`;
  return [...lines, `${counted(lines.length, "mark")} in ${counted(files, "file")}.`].join("\n");
}

/** All files that the user sees. */
function paths(under) {
  const paths = [];
  let after;
  do {
    const page = asked(() => list({ under, recursive: true, globs: [], after }));
    paths.push(...page.entries.filter((entry) => entry.kind === "file").map((entry) => entry.path));
    after = page.next;
  } while (after !== undefined);
  return paths;
}

/** Asks the host; a failure of its becomes the answer of the call. */
function asked(question) {
  try {
    return question();
  } catch (error) {
    throw error.payload;
  }
}

function counted(count, noun) {
  return `${count} ${noun}${count === 1 ? "" : "s"}`;
}
