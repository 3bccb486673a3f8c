"""Mutation tests of the boundary: `scripts/mutants`.

cargo-mutants lists the mutations of an area; `patches/` holds changes of constants, tables and flags, which it leaves
alone. The mutants of a crate are compiled together (batch.py); a patch is applied and compiled alone, and so are the mutants
of an area that judges by helper processes (`alone` in areas.toml). All of it happens in a worktree of HEAD below the target
folder, never in the user's tree, and the tests that the area or the patch names must fail. A result is kept as one line of
`results.jsonl` by file, function and change, so a later run goes on where this one ends.
"""

import argparse
import hashlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
import threading
import tomllib
from pathlib import Path

from batch import Batch

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/mutants"
TARGET = Path(os.environ["CARGO_TARGET_DIR"])
STATE = TARGET / "mutants"
TREE = STATE / "tree"
RESULTS = STATE / "results.jsonl"

# A mutation can make a loop endless: longer than any of the tests takes on a busy machine.
BUILD_SECONDS_MAX = 1200
TEST_SECONDS_MAX = 420


ENVIRONMENT = dict(os.environ, CARGO_TARGET_DIR=str(TARGET), CARGO_TERM_COLOR="never", INSTA_UPDATE="no")


def run(command, seconds):
    """Runs a command in the worktree; (exit code or None where its time was over, the end of its output)."""
    process = subprocess.Popen(
        command,
        cwd=TREE,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        return process.returncode, output[-20000:]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        return None, output[-20000:]


def find_head():
    return subprocess.check_output(["git", "-C", ROOT, "rev-parse", "HEAD"], text=True).strip()


def prepare_tree(head):
    """A clean worktree of a commit."""
    if not (TREE / ".git").exists():
        STATE.mkdir(parents=True, exist_ok=True)
        subprocess.run(["git", "-C", ROOT, "worktree", "prune"], check=True)
        subprocess.run(["git", "-C", ROOT, "worktree", "add", "--quiet", "--force", "--detach", TREE], check=True)
    subprocess.run(["git", "-C", TREE, "checkout", "--quiet", "--force", "--detach", head], check=True)


def read_areas():
    return tomllib.loads((HERE / "areas.toml").read_text())["area"]


def read_equivalent():
    """Patterns of keys with their reasons."""
    rows = tomllib.loads((HERE / "equivalent.toml").read_text()).get("mutant", [])
    return [(re.compile(row["pattern"] if "pattern" in row else re.escape(row["key"])), row["reason"]) for row in rows]


def find_reason(reasons, key):
    """Why no test can kill a mutant; None if one should."""
    return next((reason for pattern, reason in reasons if pattern.fullmatch(key)), None)


def list_mutants(area):
    """The mutations of an area: key and diff."""
    tool = STATE / "tools/bin/cargo-mutants"
    command = [tool, "mutants", "--list", "--json", "--diff", "--no-config", "--package", area["crate"]]
    for pattern in area["files"]:
        command += ["--file", pattern]
    listed = json.loads(subprocess.check_output(command, cwd=TREE, text=True))
    mutants, counts = [], {}
    for mutant in listed:
        function = (mutant.get("function") or {}).get("function_name", "")
        change = re.sub(r"^\S+:\d+:\d+: ", "", mutant["name"])
        key = f"{mutant['file']} | {function} | {change}"
        # A number distinguishes a change that occurs twice in one function.
        counts[key] = counts.get(key, 0) + 1
        if counts[key] > 1:
            key = f"{key} | {counts[key]}"
        own = {name: mutant[name] for name in ("file", "span", "function", "replacement", "diff", "package")}
        mutants.append({"key": key, "area": area["name"], "judges": area["judges"], **own})
        # A constant has no body to choose.
        mutants[-1]["alone"] = "alone" in area or not mutant["function"]
    return mutants


def read_patch(path):
    """A patch: lines of `name: value` come before the diff."""
    head, _, diff = path.read_text().partition("diff --git ")
    fields = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    judges = [judge.strip() for judge in fields["Judges"].split(";")]
    diff = "diff --git " + diff
    return {"key": f"patch {path.stem}", "area": "patches", "diff": diff, "judges": judges, "alone": True}


def command_of(judge):
    """`test CRATE ARGUMENTS…` is `cargo test`, `attack NAME…` makes attacks; (build, run)."""
    kind, *rest = judge.split()
    if kind == "attack":
        build = ["cargo", "build", "--quiet", "--locked", "-p", "tool-proof", "--example", "attack"]
        return build, [TARGET / "debug/examples/attack", *rest]
    arguments, _, names = " ".join(rest[1:]).partition(" -- ")
    build = ["cargo", "test", "--quiet", "--locked", "-p", rest[0], *arguments.split()]
    return [*build, "--no-run"], [*build, "--", *names.split()]


def command_of_batch(judge):
    """The build of a judge, and the arguments of what it builds."""
    build, tests = command_of(judge)
    return [part for part in build if part != "--quiet"], tests[tests.index("--") + 1 :] if "--" in tests else tests[1:]


def check_judges(mutants):
    """Every judge must pass without a change, or it would kill whatever it is shown."""
    judges = {judge for mutant in mutants for judge in mutant["judges"]}
    attacks = sorted({name for judge in judges if judge.startswith("attack ") for name in judge.split()[1:]})
    tests = sorted(judge for judge in judges if not judge.startswith("attack "))
    for judge in ([" ".join(["attack", *attacks])] if attacks else []) + tests:
        for command, seconds in zip(command_of(judge), (BUILD_SECONDS_MAX, 4 * TEST_SECONDS_MAX)):
            code, output = run(command, seconds)
            if code != 0:
                sys.exit(f"without any change this fails: {judge}\n{output[-6000:]}")


def judge_mutant(mutant):
    """What came of a mutant: killed, timeout, unviable or survived, and by whom it was killed."""
    applied = subprocess.run(
        ["git", "-C", TREE, "apply", "--unidiff-zero", "--recount", "--whitespace=nowarn", "-"],
        input=mutant["diff"],
        text=True,
        capture_output=True,
    )
    if applied.returncode:
        return "broken", applied.stderr.strip()
    for judge in mutant["judges"]:
        build, tests = command_of(judge)
        code, output = run(build, BUILD_SECONDS_MAX)
        if code != 0:
            errors = [line for line in output.splitlines() if line.startswith("error")]
            return "unviable", (errors or ["it takes too long to build"])[0]
        code, output = run(tests, TEST_SECONDS_MAX)
        if code is None:
            return "timeout", judge
        if code != 0:
            failed = re.findall(r"^test (\S+) \.\.\. FAILED|^    (\S+)$|^(\S+ +(?:out|odd|none|ended) .*)$", output, re.M)
            names = ["".join(found) for found in failed]
            return "killed", f"{judge.split(' -- ')[0]}: {(names or ['it failed'])[0][:160]}"
    return "survived", ""


def read_results():
    if not RESULTS.exists():
        return {}
    return {row["key"]: row for row in map(json.loads, RESULTS.read_text().splitlines())}


def digest(mutant):
    """A change is judged anew where its lines or its judges have changed."""
    text = mutant["diff"].split("@@", 2)[-1] + "\n".join(mutant["judges"])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


lock = threading.Lock()


def keep_result(mutant, outcome, detail, seconds):
    row = {
        "key": mutant["key"],
        "area": mutant["area"],
        "digest": digest(mutant),
        "outcome": outcome,
        "detail": detail,
        "seconds": round(seconds, 1),
    }
    with lock:
        with RESULTS.open("a") as results:
            results.write(json.dumps(row) + "\n")
        print(f"{outcome:9} {row['seconds']:6} s  {mutant['key']}  {detail}", flush=True)


def judge_batches(mutants, until, jobs):
    """Judges mutants by one build for each area; the ones that need a build of their own."""
    alone = []
    for area in sorted({mutant["area"] for mutant in mutants}):
        own = [mutant for mutant in mutants if mutant["area"] == area]
        for number, mutant in enumerate(own, 1):
            mutant["number"] = number
        if until and time.monotonic() > until:
            break
        judges = own[0]["judges"]
        batch = Batch(TREE, ENVIRONMENT, command_of_batch)
        started = time.monotonic()
        own, unviable, left_out = batch.build(own, judges)
        print(f"{area}: {len(own)} mutants compiled in {time.monotonic() - started:.0f} s", flush=True)
        for mutant in unviable:
            keep_result(mutant, "unviable", "it does not compile", 0)
        alone += left_out
        batch.judge(own, judges, jobs, until, keep_result)
        batch.restore()
    return alone


def judge_all(mutants, head, options):
    done = read_results()
    fresh = [mutant for mutant in mutants if done.get(mutant["key"], {}).get("digest") != digest(mutant)]
    print(f"{len(mutants)} mutants, {len(mutants) - len(fresh)} of them judged before", flush=True)
    until = time.monotonic() + 60 * options.minutes if options.minutes else None
    alone = [mutant for mutant in fresh if mutant["alone"]]
    alone += judge_batches([mutant for mutant in fresh if not mutant["alone"]], until, options.jobs)
    if alone and not (until and time.monotonic() > until):
        check_judges(alone)
    for mutant in alone:
        if until and time.monotonic() > until:
            break
        prepare_tree(head)
        started = time.monotonic()
        outcome, detail = judge_mutant(mutant)
        keep_result(mutant, outcome, detail, time.monotonic() - started)
    prepare_tree(head)


def report():
    """What is known so far; 1 where something survived without a reason."""
    reasons = read_equivalent()
    rows = list(read_results().values())
    areas = sorted({row["area"] for row in rows})
    print(f"{'area':14}{'mutants':>8}{'killed':>8}{'equivalent':>11}{'survivors':>10}{'unviable':>9}{'seconds each':>13}")
    survivors = []
    for area in areas:
        own = [row for row in rows if row["area"] == area]
        count = {name: sum(row["outcome"] in name for row in own) for name in (("killed", "timeout"), ("unviable",))}
        alive = [row for row in own if row["outcome"] in ("survived", "broken")]
        equivalent = [row for row in alive if find_reason(reasons, row["key"])]
        survivors += [row for row in alive if not find_reason(reasons, row["key"])]
        viable = len(own) - count[("unviable",)]
        # cargo-mutants guesses values, which may be of no such type; a patch has to compile.
        survivors += [row for row in own if row["outcome"] == "unviable" and area == "patches"]
        mean = sum(row["seconds"] for row in own) / len(own)
        print(
            f"{area:14}{viable:8}{count[('killed', 'timeout')]:8}{len(equivalent):11}"
            f"{len(alive) - len(equivalent):10}{count[('unviable',)]:9}{mean:13.1f}"
        )
    for row in survivors:
        print(f"{row['outcome']}: {row['key']} {row['detail']}")
    for row in rows:
        reason = find_reason(reasons, row["key"])
        if row["outcome"] == "survived" and reason:
            print(f"equivalent: {row['key']}: {reason}")
    return 1 if survivors else 0


def main():
    areas = read_areas()
    names = [area["name"] for area in areas]
    parser = argparse.ArgumentParser(prog="scripts/mutants", description="Mutation tests of the boundary.")
    parser.add_argument("areas", nargs="*", metavar="AREA", help=f"patches, or of these: {', '.join(names)}; else all")
    parser.add_argument("--sample", type=int, metavar="N", help="a random sample of N mutants of these areas; patches are always all")
    parser.add_argument("--seed", type=int, default=1, metavar="S", help="of the sample; the same one gives the same sample")
    parser.add_argument("--minutes", type=float, metavar="M", help="begin no further mutant after so long")
    parser.add_argument("--jobs", type=int, default=1, metavar="J", help="mutants of a batch judged at a time (1)")
    parser.add_argument("--match", metavar="REGEX", help="only those whose key matches")
    parser.add_argument("--list", action="store_true", help="list them and judge none")
    parser.add_argument("--report", action="store_true", help="show the results so far and judge none")
    options = parser.parse_args()
    if options.report:
        return report()
    unknown = set(options.areas) - set(names) - {"patches"}
    if unknown:
        parser.error(f"there is no area {', '.join(sorted(unknown))}")
    # A commit that is made meanwhile changes nothing.
    head = find_head()
    prepare_tree(head)
    wanted = options.areas or ["patches", *names]
    mutants = [mutant for area in areas if area["name"] in wanted for mutant in list_mutants(area)]
    if options.sample is not None:
        # By a number of its own for each mutant, so that a larger sample holds the smaller one.
        mutants.sort(key=lambda mutant: random.Random(f"{options.seed} {mutant['key']}").random())
        mutants = mutants[: options.sample]
    if "patches" in wanted:
        mutants += [read_patch(path) for path in sorted((HERE / "patches").glob("*.patch"))]
    if options.match:
        mutants = [mutant for mutant in mutants if re.search(options.match, mutant["key"])]
    if options.list:
        print("\n".join(mutant["key"] for mutant in mutants))
        return 0
    judge_all(mutants, head, options)
    return report()


if __name__ == "__main__":
    sys.exit(main())
