#!/usr/bin/env python3
"""Makes cases of a package's history: what `cases.json` was made by.

  history.py NAME CLONE TAG TREE [FOLDER]

CLONE is a git clone, TAG the commit that the release was made of, TREE the unpacked release, FOLDER the package's place
in the clone. A case is the message of a later commit and the source files that it changed, where there are 1 to 5 of
them, all are in the release, and the message is about code. Which of those are taken is decided by their commit ids.
"""
import hashlib
import json
import re
import subprocess
import sys
from pathlib import Path

CASES_MAX = 10
COMMITS_MAX = 400
TRUTH_MAX = 5
CHANGED_MAX = 15
QUERY_CHARACTERS_MAX = 300

SOURCE = (".py", ".js", ".ts", ".rs")
# What is not the product, or follows from the version alone.
ASIDE = re.compile(
    r"(^|/)(tests?|testing|__tests__|spec|docs?|examples?|bench\w*|scripts?|build|dist)/"
    r"|(^|/)(test_[^/]*|[^/]*_test|conftest|setup|conf|_?_?version(_?_)?)\.\w+$|\.(test|spec)\.|\.d\.ts$"
)
NOT_ABOUT_CODE = re.compile(
    r"(merge|bump|revert|release|prepare|publish|version|v?\d+\.\d+|update (changelog|dep|lock)|"
    r"(chore|ci|docs?|tests?|build|release|style|deps?)\b[^:]*:|.*\b(typos?|automatic fixes|comments?)\b)",
    re.IGNORECASE,
)
TRAILER = re.compile(r"^(co-authored-by|signed-off-by|reviewed-by|pr-url|cc|change-id|---+)\b.*", re.IGNORECASE)


def git(clone, *arguments):
    command = ["git", "-C", clone, *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True).stdout


def query(message):
    """The message without its trailers and addresses, cut at a word."""
    lines = [re.sub(r"https?://\S+", "", line).rstrip() for line in message.splitlines()]
    text = "\n".join(line for line in lines if line.strip() and not TRAILER.match(line.strip()))
    if len(text) > QUERY_CHARACTERS_MAX:
        text = text[:QUERY_CHARACTERS_MAX].rsplit(None, 1)[0]
    return text.strip()


def case(clone, commit, folder, tree):
    changed = git(clone, "show", "--format=", "--name-only", commit).split("\n")
    changed = [path for path in changed if path]
    if not 1 <= len(changed) <= CHANGED_MAX:
        return None
    inside = [path.removeprefix(folder) for path in changed if path.startswith(folder)]
    truth = sorted(path for path in inside if path.endswith(SOURCE) and not ASIDE.search(path))
    if not 1 <= len(truth) <= TRUTH_MAX or any(not (tree / path).is_file() for path in truth):
        return None
    message = git(clone, "show", "-s", "--format=%B", commit).strip()
    if NOT_ABOUT_CODE.match(message) or len(message.splitlines()[0].split()) < 4:
        return None
    return {"query": query(message), "truth": truth}


def main():
    name, clone, tag, tree, *folder = sys.argv[1:]
    folder = folder[0].rstrip("/") + "/" if folder else ""
    log = git(clone, "log", "--no-merges", "--reverse", "--format=%H", f"{tag}..HEAD", "--", folder or ".")
    cases = []
    for commit in log.split()[:COMMITS_MAX]:
        if found := case(clone, commit, folder, Path(tree)):
            cases.append((hashlib.sha256(commit.encode()).hexdigest(), found))
    # Of several commits with one message, the first.
    messages = {}
    for order, found in cases:
        messages.setdefault(found["query"], (order, found))
    taken = sorted(messages.values(), key=lambda entry: entry[0])[:CASES_MAX]
    print(json.dumps([{"package": name, **found} for _, found in taken], indent=1, ensure_ascii=False))


if __name__ == "__main__":
    main()
