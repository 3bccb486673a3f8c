"""`{{name}}`: finds the lines that hold a mark, such as TODO, draws them, and settles one of them.

What stands here at the top runs once, when the skill is built; each call starts from there. So import everything up here.
"""

import hashlib
import json
import os
from collections import Counter

from componentize_py_types import Err
from wit_world import exports
from wit_world.imports import answer, proposal, repository
from wit_world.imports.types import Descriptor, Failure, Function, Outcome

READS = ["read-repository"]
WRITES = ["read-repository", "write-repository"]

MARK = {"type": "string", "minLength": 1, "description": "The mark to look for. Default: TODO."}

FIND = {
    "type": "object",
    "properties": {
        "mark": MARK,
        "under": {
            "type": "string",
            "description": "A file or a folder to look in, relative to the repository root. Default: all of it.",
        },
    },
    "required": [],
    "additionalProperties": False,
}

DONE = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "File with the mark, relative to the repository root."},
        "line": {"type": "integer", "minimum": 1, "description": "Line of the mark, counted from 1."},
        "mark": MARK,
    },
    "required": ["path", "line"],
    "additionalProperties": False,
}

# The schema of the details, which scripts and other agents read.
OUTPUT = {
    "type": "object",
    "properties": {"marks": {"type": "array", "items": {"type": "object"}}},
    "required": ["marks"],
}


def find(given: dict) -> Outcome:
    mark = given.get("mark", "TODO")
    marks, searched = search(mark, given.get("under", ""))
    for path, line, _ in marks[:100]:
        answer.cite(answer.Citation(path=path, line=line))
    lines = [f"{path}:{line}: {text}" for path, line, text in marks]
    files = {path for path, _, _ in marks}
    if marks:
        lines.append(f"{counted(len(marks), 'mark')} in {counted(len(files), 'file')}.")
    else:
        lines.append(f"No `{mark}` in {counted(searched, 'file')}.")
    details = {"marks": [{"path": path, "line": line, "text": text} for path, line, text in marks]}
    return outcome("\n".join(lines), json.dumps(details))


def chart(given: dict) -> Outcome:
    mark = given.get("mark", "TODO")
    marks, searched = search(mark, given.get("under", ""))
    files = Counter(path for path, _, _ in marks)
    for path, count in files.items():
        # A person sees this line at once; it is a part of the answer, too.
        answer.text(f"{path}: {count}\n")
    if files:
        diagram = f"pie title {mark}\n" + "".join(f'"{path}" : {count}\n' for path, count in files.items())
        media = answer.Media("text/vnd.mermaid", f"a pie of the files with `{mark}`", diagram.encode())
        answer.attach(media)
    return outcome(counted(searched, "file"))


def done(given: dict) -> Outcome:
    path, number, mark = given["path"], given["line"], given.get("mark", "TODO")
    try:
        with open(f"/repo/{path}", "rb") as file:
            content = file.read()
        lines = content.decode().splitlines(keepends=True)
    except (OSError, UnicodeDecodeError) as error:
        raise Err(Failure("failed", f"`{path}` could not be read: {error}", None))
    if number > len(lines) or mark not in lines[number - 1]:
        raise Err(Failure("not-found", f"line {number} of `{path}` holds no `{mark}`", None))
    lines[number - 1] = lines[number - 1].replace(mark, "DONE", 1)
    # The host compares the digest with the file again when it commits the change.
    proposal.replace(path, hashlib.sha256(content).hexdigest())
    place = f"/stage/{path}"
    if os.path.dirname(path):
        os.makedirs(os.path.dirname(place), exist_ok=True)
    with open(place, "wb") as file:
        file.write("".join(lines).encode())
    return outcome(f"Settled line {number} of `{path}`.")


FUNCTIONS = {"{{name}}": find, "{{name}}_chart": chart, "{{name}}_done": done}


class Handler(exports.Handler):
    def describe(self) -> Descriptor:
        functions = [
            Function(
                name="{{name}}",
                description="Finds the lines that hold a mark, such as TODO. Use it to see what is left to do.",
                parameters=json.dumps(FIND),
                effects=READS,
                metadata=json.dumps({"title": "Find marks", "tags": ["todo"], "output": OUTPUT}),
            ),
            Function(
                name="{{name}}_chart",
                description="Draws how many lines of each file hold a mark, such as TODO, as a diagram.",
                parameters=json.dumps(FIND),
                effects=READS,
                metadata=None,
            ),
            Function(
                name="{{name}}_done",
                description="Settles a mark, such as TODO, in one line of a file: it becomes DONE.",
                parameters=json.dumps(DONE),
                effects=WRITES,
                metadata=None,
            ),
        ]
        description = "Finds, draws and settles marks such as TODO."
        return Descriptor("{{name}}", "0.1.0", description, functions, None)

    def call(self, name: str, arguments: str) -> Outcome:
        return FUNCTIONS[name](json.loads(arguments))


def search(mark: str, under: str) -> tuple[list[tuple[str, int, str]], int]:
    """The marks beneath a folder, and the number of files that were searched."""
    marks, searched = [], 0
    for path in paths(under):
        try:
            with open(f"/repo/{path}", encoding="utf-8") as file:
                marks += [(path, at, line.strip()) for at, line in enumerate(file, 1) if mark in line]
        except (OSError, UnicodeDecodeError):
            continue  # What is listed may be gone, or may not be text.
        searched += 1
    answer.progress(searched, searched, "files searched")
    return marks, searched


def paths(under: str) -> list[str]:
    """All files that the user sees. A failure of the host is raised and becomes the answer of the call."""
    paths, after = [], None
    while True:
        page = repository.list(repository.Query(under=under, recursive=True, globs=[], after=after))
        paths += [entry.path for entry in page.entries if entry.kind == "file"]
        if page.next is None:
            return paths
        after = page.next


def outcome(text: str, details: str | None = None) -> Outcome:
    return Outcome(text=text, truncated=False, cursor=None, deletions=[], details=details)


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
