"""Cases out of the history of a clone: commits that a person might have given as a task.

A case is the message of a commit and the one to five source files that it changed, all of which existed before. Merges,
reverts, releases, commits of bots, tidying and repeated messages are no tasks. Commit ids decide which of the rest are
taken, so that two runs agree.
"""

import collections
import hashlib
import re
import subprocess

from history import ASIDE, NOT_ABOUT_CODE, query

CASES_MAX = 100
# Old commits tell little about the way in which a project is written today.
COMMITS_MAX = 4_000
TRUTH_MAX = 5
CHANGED_MAX = 15
WORDS_MIN = 4

LANGUAGES = {
    "Python": (".py",),
    "JavaScript": (".js", ".mjs", ".cjs", ".jsx"),
    "TypeScript": (".ts", ".tsx", ".mts", ".cts"),
    "Go": (".go",),
    "Rust": (".rs",),
    "Java": (".java",),
    "Kotlin": (".kt",),
    "C": (".c", ".h"),
    "C++": (".cc", ".cpp", ".cxx", ".hpp", ".hh"),
    "Ruby": (".rb",),
    "PHP": (".php",),
    "Elixir": (".ex",),
}
LANGUAGE_OF = {ending: language for language, endings in LANGUAGES.items() for ending in endings}
NOT_THE_PRODUCT = re.compile(
    r"(^|/)(test[^/]*|[^/]*[-_]tests?|specs?|src/test|androidTest|fixtures?|vendor|third_party|deps|single_include|"
    r"benchmarks?|contrib|samples?|playgrounds?|website|packages/docs-?\w*)/"
    r"|(^|/)([^/]*[._]spec|[^/]*Tests?|spec_[^/]*)\.\w+$|_test\.go$"
)
BOT = re.compile(r"\[bot\]|dependabot|renovate|greenkeeper|pre-commit-ci|github-actions", re.IGNORECASE)
TIDYING = re.compile(
    r".*\b(whitespace|formatting|reformat|indent(ation)?|lint(er|ing)?|clippy|rubocop|gofmt|rustfmt|prettier|eslint|"
    r"checkstyle|pmd|javadocs?|copyright|licen[cs]e|changelog|spelling|spellings|tidy|clean ?-?up|cosmetic|"
    r"wordsmith\w*|nits?|todo|coverage|readme|news|warnings?)\b",
    re.IGNORECASE,
)


def git(clone, *arguments):
    command = ["git", "-C", clone, *arguments]
    return subprocess.run(command, capture_output=True, text=True, errors="replace", check=True).stdout


def is_task(author, message):
    title = message.splitlines()[0] if message else ""
    return (
        len(title.split()) >= WORDS_MIN
        and not BOT.search(author)
        and not NOT_ABOUT_CODE.match(message)
        and not TIDYING.match(title)
    )


def truth(changes):
    """The changed sources, unless one is new or gone, or there are too few or too many."""
    if not 1 <= len(changes) <= CHANGED_MAX:
        return None
    files = []
    for status, path in changes:
        ending = path[path.rfind("."):]
        if ending in LANGUAGE_OF and not ASIDE.search(path) and not NOT_THE_PRODUCT.search(path):
            if status != "M":
                return None
            files.append(path)
    return sorted(files) if 1 <= len(files) <= TRUTH_MAX else None


def log(clone):
    """The newest commits without merges: (id, parent, author, message, [(status, path)])."""
    form = "%x01%H%x02%P%x02%an <%ae>%x02%B%x03"
    text = git(clone, "-c", "core.quotePath=false", "log", "--no-merges", f"-{COMMITS_MAX}", "--name-status",
               "--no-renames", f"--format={form}")
    for entry in text.split("\x01")[1:]:
        head, _, changes = entry.partition("\x03")
        commit, parents, author, message = head.split("\x02", 3)
        lines = [line.split("\t", 1) for line in changes.strip().splitlines()]
        parent = parents.split()[0] if parents else None
        yield commit, parent, author, message.strip(), [line for line in lines if len(line) == 2]


def cases(name, clone, most=CASES_MAX):
    """The cases of a clone, oldest first, so that each checkout changes little."""
    found, times = {}, collections.Counter()
    for at, (commit, parent, author, message, changes) in enumerate(log(clone)):
        text = query(message)
        times[text] += 1
        files = truth(changes) if parent and is_task(author, message) else None
        if files:
            kinds = collections.Counter(LANGUAGE_OF[path[path.rfind("."):]] for path in files)
            found[commit] = {
                "repository": name, "commit": commit, "parent": parent, "language": kinds.most_common(1)[0][0],
                "task": text, "truth": files, "at": at,
            }
    unique = [case for case in found.values() if times[case["task"]] == 1]
    unique.sort(key=lambda case: hashlib.sha256(case["commit"].encode()).hexdigest())
    return sorted(unique[:most], key=lambda case: -case["at"])
