"""Ten jobs on released packages, for agents whose model is a script: what one does, whatever the agent calls its tools.

A job is the message of a commit and the files that it changed, out of tests/localise/cases.json. Every second one is a
question about the files. The scripted model wants the lines around the word of the task in each file. Where a request does
not name the file, it searches for the word; where a request does not hold the lines, it reads them. Then it changes a line
of each file, or answers. So an agent that shows files by itself is asked for less, and pays for what it shows.
"""

import json
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path[:0] = [str(ROOT / "tests/localise")]

import trees  # noqa: E402

COUNT = 10
LINES_BEFORE, LINES = 20, 120
# The part of the wanted lines that a request has to hold.
ENOUGH = 0.9


class Place:
    """The lines of a file that a job is about, and the one that it changes."""

    def __init__(self, tree, path, task):
        self.path = path
        text = (tree / path).read_text(encoding="utf-8")
        lines = text.split("\n")
        words = sorted(set(re.findall(r"[A-Za-z_]{4,}", task)), key=lambda word: (-len(word), word))
        self.word = next((word for word in words if word.lower() in text.lower()), Path(path).stem)
        at = next((at for at, line in enumerate(lines) if self.word.lower() in line.lower()), 0)
        self.first = max(0, at - LINES_BEFORE)
        self.lines = lines[self.first : self.first + LINES]
        self.old = next(line for line in self.lines if len(line.strip()) > 12 and text.count(line) == 1)
        self.new = f"{self.old}  # see above"

    def is_held(self, text):
        wanted = [line.strip() for line in self.lines if len(line.strip()) > 3]
        return sum(line in text for line in wanted) >= ENOUGH * len(wanted)


class Job:
    def __init__(self, number, case, tree):
        self.tree, self.package = tree, case["package"]
        subject = case["query"].split("\n")[0].strip()
        self.is_question = number % 2 == 1
        self.task = f"Where and how is this done: {subject}?" if self.is_question else subject
        self.places = [Place(tree, path, case["query"]) for path in case["truth"]]

    def steps(self):
        """The scripted model: gets the text of a request, and gives a step (`search`, `read`, `edit`) with its place."""
        text = yield
        for place in self.places:
            if place.path not in text:
                text = yield "search", place
            if not place.is_held(text):
                text = yield "read", place
        for place in [] if self.is_question else self.places:
            text = yield "edit", place


def all_jobs(folder):
    data = json.loads((ROOT / "tests/localise/cases.json").read_text(encoding="utf-8"))
    folders = {package["name"]: trees.fetch(package, folder) for package in data["packages"] if package.get("gate")}
    cases = [case for case in data["cases"] if case.get("gate")]
    return [Job(number, case, folders[case["package"]]) for number, case in enumerate(cases[:COUNT])]


def texts(value):
    """All text of a request, as a model reads it."""
    if isinstance(value, dict):
        return "\n".join(texts(field) for field in value.values())
    return "\n".join(texts(item) for item in value) if isinstance(value, list) else str(value)


def tool_call(step, place, _):
    if step == "search":
        return "search_code", {"pattern": place.word, "literal": True}
    if step == "read":
        return "read_file", {"path": place.path, "offset": place.first + 1, "limit": LINES}
    return "write_file", {"path": place.path, "edits": [{"old": place.old, "new": place.new}]}


def codex_call(step, place, _):
    if step == "search":
        command = f"grep -rnI -- {place.word} . | head -50"
    elif step == "read":
        command = f"sed -n '{place.first + 1},{place.first + LINES}p' {place.path}"
    else:
        patch = f"*** Begin Patch\n*** Update File: {place.path}\n@@\n-{place.old}\n+{place.new}\n*** End Patch"
        command = f"apply_patch <<'EOF'\n{patch}\nEOF"
    return "exec_command", {"cmd": command}


def opencode_call(step, place, work):
    path = str(work / place.path)
    if step == "search":
        return "grep", {"pattern": place.word}
    if step == "read":
        return "read", {"filePath": path, "offset": place.first + 1, "limit": LINES}
    return "edit", {"filePath": path, "oldString": place.old, "newString": place.new}
