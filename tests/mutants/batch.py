"""Judges many mutants with one build: `scripts/mutants`.

Each mutated function gets its mutated bodies beside its own, and `TOOL_MUTANT` chooses one when the program runs. So a
crate is compiled once for all of its mutants instead of once for each. A helper process that loses the variable runs the
unchanged code: that can hide a kill, and never invents one.
"""

import json
import os
import re
import signal
import subprocess
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ACTIVE = """
#[allow(missing_docs, dead_code, reason = "chooses a mutant")]
pub(crate) fn active_mutant() -> u32 {
    static NUMBER: std::sync::OnceLock<u32> = std::sync::OnceLock::new();
    *NUMBER.get_or_init(|| std::env::var("TOOL_MUTANT").ok().and_then(|text| text.parse().ok()).unwrap_or(0))
}
"""

# Compiler errors come in phases, so a batch needs several builds until no mutant breaks it.
BUILDS_MAX = 12

# A token that may hold a brace which opens no block: a comment, a string, a character.
OPAQUE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(#*)".*?"\1|b?"(?:\\.|[^"\\])*"|b?'(?:\\(?:u\{[^}]*\}|x..|.)|[^\\'])'""", re.S
)


def offset(starts, place):
    """The offset of a line and column, both from 1."""
    return starts[place["line"] - 1] + place["column"] - 1


def line_starts(text):
    return [0] + [found.end() for found in re.finditer("\n", text)]


def find_body(text, start, end):
    """The offset of the brace that opens the body of the function in `text[start:end]`, or None."""
    depth, at = 0, start
    while at < end:
        opaque = OPAQUE.match(text, at)
        if opaque:
            at = opaque.end()
            continue
        character = text[at]
        depth += (character in "([") - (character in ")]")
        if character == "{" and depth == 0:
            return at
        at += 1
    return None


def weave(text, mutants):
    """The text with all mutants beside the code, the lines of each (number: first, last), and those left out."""
    starts = line_starts(text)
    spans = {}
    for mutant in mutants:
        function = mutant["function"]["span"]
        spans[mutant["number"]] = (offset(starts, function["start"]), offset(starts, function["end"]))
    # A mutant in a nested function belongs to the outermost one, whose text is copied.
    outer = [span for span in set(spans.values()) if not any(
        other != span and other[0] <= span[0] and span[1] <= other[1] for other in spans.values())]
    by_function = defaultdict(list)
    for mutant in mutants:
        start, end = spans[mutant["number"]]
        by_function[next(span for span in outer if span[0] <= start and end <= span[1])].append(mutant)
    pieces, lines, left_out, done, line = [], {}, [], 0, 1

    def put(piece):
        nonlocal line
        pieces.append(piece)
        line += piece.count("\n")

    for (start, end), own in sorted(by_function.items()):
        body = find_body(text, start, end)
        if body is None or re.search(r"\bconst (unsafe )?fn\b", text[start:body]):
            left_out += own
            continue
        put(text[done : body + 1] + "match crate::active_mutant() {")
        for mutant in own:
            first, last = offset(starts, mutant["span"]["start"]), offset(starts, mutant["span"]["end"])
            put(f"\n{mutant['number']} => {{")
            begin = line
            put(text[body + 1 : first] + mutant["replacement"] + text[last : end - 1])
            lines[mutant["number"]] = (begin, line)
            put("\n}")
        put("\n_ => {" + text[body + 1 : end - 1] + "}}")
        done = end - 1
    put(text[done:])
    return "".join(pieces), lines, left_out


class Batch:
    """The mutants of one crate in a worktree; `environment` is that of every command."""

    def __init__(self, tree, environment, command_of):
        self.tree, self.environment, self.command_of = tree, environment, command_of
        self.executables = {}

    def restore(self):
        subprocess.run(["git", "-C", self.tree, "checkout", "--quiet", "--force", "."], check=True)

    def write(self, mutants):
        """Weaves the mutants into the worktree; the lines by file, and the mutants that need a build of their own."""
        self.restore()
        by_file, lines, left_out = defaultdict(list), {}, []
        for mutant in mutants:
            by_file[mutant["file"]].append(mutant)
        for file, own in by_file.items():
            path = Path(self.tree) / file
            text, lines[file], alone = weave(path.read_text(), own)
            left_out += alone
            path.write_text(text)
        root = Path(self.tree) / mutants[0]["file"].split("/src/")[0] / "src/lib.rs"
        root.write_text(root.read_text() + ACTIVE)
        return lines, left_out

    def compile(self, command):
        """Builds; the executables, or the compiler's errors as (file, line)."""
        process = subprocess.run(
            [*command, "--message-format=json"], cwd=self.tree, env=self.environment, capture_output=True, text=True
        )
        executables, errors = [], []
        for message in map(json.loads, filter(lambda row: row.startswith("{"), process.stdout.splitlines())):
            if message["reason"] == "compiler-artifact" and message.get("executable"):
                package = Path(message["manifest_path"]).parent
                if message["profile"]["test"] or message["target"]["kind"] == ["example"]:
                    executables.append((message["executable"], package))
            if message["reason"] == "compiler-message" and message["message"]["level"] == "error":
                for span in message["message"]["spans"]:
                    while span["expansion"] and not span["file_name"].startswith(("host/", "cli/")):
                        span = span["expansion"]["span"]
                    if span["is_primary"] or span["file_name"].startswith("host/"):
                        errors.append((span["file_name"], span["line_start"]))
        if process.returncode and not errors:
            raise RuntimeError(process.stderr[-4000:])
        return executables, errors if process.returncode else []

    def build(self, mutants, judges):
        """Builds the judges with all mutants that compile; (in the batch, unviable, in need of an own build)."""
        unviable, alone = [], []
        for _ in range(BUILDS_MAX):
            lines, left_out = self.write(mutants)
            alone += left_out
            mutants = [mutant for mutant in mutants if mutant not in left_out]
            errors = []
            for judge in judges:
                kind, arguments = self.command_of(judge)
                executables, errors = self.compile(kind)
                if errors:
                    break
                self.executables[judge] = (executables, arguments)
            if not errors:
                return mutants, unviable, alone
            bad = set()
            for file, line in errors:
                bad |= {number for number, (first, last) in lines.get(file, {}).items() if first <= line <= last}
            if not bad:
                raise RuntimeError(f"errors outside of the mutants: {errors[:5]}")
            unviable += [mutant for mutant in mutants if mutant["number"] in bad]
            mutants = [mutant for mutant in mutants if mutant["number"] not in bad]
        raise RuntimeError("the batch does not compile")

    def run_judge(self, judge, number, seconds):
        """Runs a judge under one mutant, 0 for none: None where it passes, else the reason of the kill."""
        executables, arguments = self.executables[judge]
        is_attack = judge.startswith("attack ")
        for executable, package in executables:
            environment = dict(self.environment, TOOL_MUTANT=str(number), CARGO_MANIFEST_DIR=str(package))
            process = subprocess.Popen(
                [executable, *arguments],
                cwd=self.tree if is_attack else package,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                errors="replace",
                start_new_session=True,
            )
            is_late = threading.Event()

            def stop():
                is_late.set()
                os.killpg(process.pid, signal.SIGKILL)

            timer = threading.Timer(seconds, stop)
            timer.start()
            reason = None
            try:
                for row in process.stdout:
                    failed = re.match(r"test (\S+) \.\.\. FAILED|(\S+ +(?:out|odd|none|ended) .*)$", row)
                    if failed:
                        reason = (failed[1] or failed[2])[:160]
                        break
            finally:
                timer.cancel()
            if reason:
                os.killpg(process.pid, signal.SIGKILL)
            code = process.wait()
            if is_late.is_set():
                return "timeout"
            if reason or code != 0:
                return reason or "it failed"
        return None

    def judge(self, mutants, judges, jobs, until, report):
        """Judges each mutant of the last build; `report(mutant, outcome, detail, seconds)`."""
        patience = {}
        for judge in judges:
            started = time.monotonic()
            reason = self.run_judge(judge, 0, 1800)
            if reason:
                raise RuntimeError(f"without any change this fails: {judge}: {reason}")
            patience[judge] = 30 + 5 * (time.monotonic() - started)

        def one(mutant):
            if until and time.monotonic() > until:
                return
            started = time.monotonic()
            for judge in judges:
                reason = self.run_judge(judge, mutant["number"], patience[judge])
                if reason:
                    outcome = "timeout" if reason == "timeout" else "killed"
                    detail = judge if reason == "timeout" else f"{judge.split(' -- ')[0]}: {reason}"
                    report(mutant, outcome, detail, time.monotonic() - started)
                    return
            report(mutant, "survived", "", time.monotonic() - started)

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(one, mutants))
