"""`{{name}}`: finds the lines that hold a mark, such as TODO.

What stands here at the top runs once, when the skill is built; each call starts from there. So import everything up here.
"""

import json

from wit_world import exports
from wit_world.imports import repository
from wit_world.imports.types import Descriptor, Function, Outcome

PARAMETERS = {
    "type": "object",
    "properties": {
        "mark": {
            "type": "string",
            "minLength": 1,
            "description": "The mark to look for. Default: TODO.",
        },
        "under": {
            "type": "string",
            "description": "A file or a folder to look in, relative to the repository root. Default: all of it.",
        },
    },
    "required": [],
    "additionalProperties": False,
}

METADATA = {
    "title": "Find marks",
    "tags": ["todo"],
    "examples": [{"description": "Everything that is left to do", "arguments": {}}],
}


class Handler(exports.Handler):
    def describe(self) -> Descriptor:
        description = "Finds the lines that hold a mark, such as TODO. Use it to see what is left to do."
        find_marks = Function(
            name="{{name}}",
            description=description,
            parameters=json.dumps(PARAMETERS),
            effects=["read-repository"],
            metadata=json.dumps(METADATA),
        )
        return Descriptor(
            name="{{name}}", version="0.1.0", description=description, functions=[find_marks], metadata=None
        )

    def call(self, name: str, arguments: str) -> Outcome:
        given = json.loads(arguments)
        text = find(given.get("mark", "TODO"), given.get("under", ""))
        return Outcome(text=text, truncated=False, cursor=None, deletions=[], details=None)


def find(mark: str, under: str) -> str:
    lines, files, searched = [], 0, 0
    for path in paths(under):
        try:
            with open(f"/repo/{path}", encoding="utf-8") as file:
                found = [(at, line.strip()) for at, line in enumerate(file, 1) if mark in line]
        except (OSError, UnicodeDecodeError):
            continue  # What is listed may be gone, or may not be text.
        lines += [f"{path}:{at}: {line}" for at, line in found]
        files += 1 if found else 0
        searched += 1
    if not lines:
        return f"No `{mark}` in {counted(searched, 'file')}."
    return "\n".join([*lines, f"{counted(len(lines), 'mark')} in {counted(files, 'file')}."])


def paths(under: str) -> list[str]:
    """All files that the user sees. A failure of the host is raised and becomes the answer of the call."""
    paths, after = [], None
    while True:
        page = repository.list(repository.Query(under=under, recursive=True, globs=[], after=after))
        paths += [entry.path for entry in page.entries if entry.kind == "file"]
        if page.next is None:
            return paths
        after = page.next


def counted(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"
