"""The rows of the table: each measures one thing of the product, and of its peers where there are any."""

import json
import os
import shutil
import statistics
import subprocess
import tempfile
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

from product import TARGET, Product
from timing import Cost, Failed, alternate, median, percentile, ratio, run, run_apart


@dataclass
class Row:
    """One line. `unit` is that of `ours`, `wanted` and the peer; `ratio` is the median of the pairs.

    `equal` says whether both did the same: found the same lines, and at least one. A ratio means nothing where it is
    false, and none is shown.
    """

    group: str
    what: str
    unit: str
    ours: float | None = None
    processor: float | None = None
    peer: str = ""
    theirs: float | None = None
    ratio: float | None = None
    wanted: str = ""
    note: str = ""
    equal: bool | None = None

    def as_json(self):
        return {name: value for name, value in asdict(self).items() if value not in (None, "")}


@dataclass
class Bench:
    """What all rows share."""

    program: Path
    django: Path
    kernel: Path | None
    rounds: int
    tokens: int
    agents: list[str]
    root: Path
    level: str
    given: bool
    model: object
    say: object
    rows: list[Row] = field(default_factory=list)

    def add(self, row):
        self.rows.append(row)
        self.say(row)

    def missing(self, group, what, why):
        self.add(Row(group, what, "", note=f"not measured: {why}"))


TASKS = [
    "Return a default where a queryset's aggregate over no rows is empty",
    "Fix the session cookie's SameSite attribute when it is deleted",
    "Make makemigrations notice a changed constraint name",
    "Stop the autoreloader from watching files of the virtual environment",
    "Allow a callable for upload_to of an image field with a storage",
    "Prefetch related objects through a generic foreign key",
    "Escape the admin's breadcrumbs of an object without a name",
    "Support timezone aware datetimes in the date hierarchy of the admin",
    "Cache the compiled template when the loader fails once",
    "Add a system check for duplicate index names across models",
]

# What a search leaves out, as flags of each peer; what is binary none of them searches. Ignore files count inside a git
# work tree alone, for us as for ripgrep, and files above our bound of 8 MiB (`FILE_READ_BYTES_MAX`) are not searched.
# The greps know no such bound.
SKIPPED = [".git", "node_modules", "__pycache__", "venv", ".venv", "env", "dist", "build"]
RULES = ["--no-config", "--hidden", "--max-filesize", "8M"]
for _name in SKIPPED:
    RULES += ["-g", f"!**/{_name}/**"]
GREP_RULES = [f"--exclude-dir={name}" for name in SKIPPED]
GIT_GREP_RULES = ["--", ".", *(f":(exclude,glob)**/{name}/**" for name in SKIPPED)]

# What is looked for, and is there: a rare expression, a literal, and what is on every tenth line.
SEARCHES = {
    "django": [("rare", r"def get_(prefetch|related)_queryset"), ("literal", "ForeignObjectRel")],
    "kernel": [("rare", r"void (tcp|udp)_v6_early_\w+"), ("literal", "ext4_mb_load_buddy")],
}
FREQUENT = {"django": "self", "kernel": "struct"}
WANTED = {"django": "0.4 of ripgrep", "kernel": "0.15 of ripgrep"}
# No three bytes of this are known, so that every file is read.
UNNARROWED = {"django": r"\bif\s+\w\s*:", "kernel": r"\bdo\s[0-9]\b"}
# A name that few files use.
REFERENCES = {"django": "ForeignObjectRel", "kernel": "ext4_mb_load_buddy"}


def repositories(bench):
    yield "django", bench.django
    if bench.kernel:
        yield "kernel", bench.kernel


def search(bench):
    """`tool skill call search_code` in full, and its frequent pattern with bounded output, warm."""
    for name, tree in repositories(bench):
        with Product(bench.program) as tool:
            tool.start()
            first_search(bench, tool, name, tree)
            tool.wait_for_postings()
            for kind, pattern in SEARCHES[name]:
                one_search(bench, tool, name, tree, kind, pattern)
            one_search(bench, tool, name, tree, "not narrowed", UNNARROWED[name], wanted="")
            references(bench, tool, name, tree)
            frequent(bench, tool, name, tree, FREQUENT[name])
    if not bench.kernel:
        bench.missing("search", "kernel", "no kernel tree; --kernel DIR names one")


def call(pattern, limit):
    return "skill", "call", "--repo", ".", "search_code", json.dumps({"pattern": pattern, "limit": limit})


def search_peers(pattern):
    commands = {
        "ripgrep": ["rg", *RULES, "--line-number", pattern, "."],
        "grep -r": ["grep", "-rnIE", *GREP_RULES, "-e", pattern, "."],
        "git grep": ["git", "grep", "--no-index", "-nIE", "-e", pattern, *GIT_GREP_RULES],
    }
    return {peer: command for peer, command in commands.items() if shutil.which(command[0])}


def first_search(bench, tool, name, tree):
    """A search of a backend that knows nothing of the tree: it reads every file."""
    what, pattern = f"search_code {name}, first", SEARCHES[name][1][1]
    if not shutil.which("rg"):
        return bench.missing("search", what, "ripgrep is not installed")
    theirs = run(search_peers(pattern)["ripgrep"], tree, fine=(0, 1))
    ours = tool.cost(tree, *call(pattern, 1000))
    bench.add(Row(
        "search", what, "s", ours.seconds, ours.processor, "ripgrep", theirs.seconds, ours.seconds / theirs.seconds,
        note="once; the index follows",
    ))


def references(bench, tool, name, tree):
    symbol = REFERENCES[name]
    what = f"find_references {name}"
    if not shutil.which("rg"):
        return bench.missing("search", what, "ripgrep is not installed")
    peer = ["rg", *RULES, "--line-number", "--word-regexp", symbol, "."]
    command = "skill", "call", "--repo", ".", "find_references", json.dumps({"symbol": symbol})
    ours, theirs = alternate(bench.rounds, lambda: tool.cost(tree, *command), lambda: run(peer, tree))
    bench.add(Row(
        "search", what, "s", median(ours), median(ours, "processor"), "ripgrep", median(theirs), ratio(ours, theirs),
        WANTED[name], "ours reads syntax trees, too",
    ))


def one_search(bench, tool, name, tree, kind, pattern, wanted=None):
    what = f"search_code {name}, {kind}"
    peers = search_peers(pattern)
    mine = lines(tool.ask(tree, *call(pattern, 1000)).rsplit("\n\n", 1)[0], summary="No matches")
    found = {peer: lines(searched(command, tree)) for peer, command in peers.items()}

    def ours():
        return tool.cost(tree, *call(pattern, 1000))

    def theirs(command):
        return lambda: run(command, tree, fine=(0, 1))

    costs = alternate(bench.rounds, ours, *map(theirs, peers.values()))
    wanted = WANTED[name] if wanted is None else wanted
    for peer, taken in zip(peers, costs[1:], strict=True):
        equal, note = compared(mine, found[peer])
        bench.add(Row(
            "search", what, "s", median(costs[0]), median(costs[0], "processor"), peer, median(taken),
            ratio(costs[0], taken), wanted if peer == "ripgrep" else "", note, equal,
        ))
    for peer in ("ripgrep", "grep -r", "git grep"):
        if peer not in peers:
            bench.missing("search", f"{what}, against {peer}", "it is not installed")


def searched(command, tree):
    """What a search prints; ending with 1 is a search in vain."""
    done = subprocess.run(command, cwd=tree, stdin=subprocess.DEVNULL, capture_output=True)
    if done.returncode not in (0, 1):
        raise Failed(f"`{' '.join(command)}` ended with {done.returncode}: {done.stderr[-300:]!r}")
    return done.stdout.decode(errors="replace")


def lines(text, summary=None):
    """The lines found, whatever their order. A line that begins with `summary` is none of them."""
    found = {line.removeprefix("./") for line in text.split("\n") if line.strip()}
    return {line for line in found if not (summary and line.startswith(summary))}


def compared(mine, theirs):
    """Whether both found the same lines and any at all, and that in words."""
    if mine != theirs:
        return False, f"{len(mine - theirs)} lines only here, {len(theirs - mine)} only there"
    return (True, f"the same {len(mine)} lines") if mine else (False, "neither finds a line")


def frequent(bench, tool, name, tree, pattern):
    what = f"search_code {name}, frequent, 100 lines"
    if not shutil.which("rg"):
        return bench.missing("search", what, "ripgrep is not installed")
    bounded = ["rg", *RULES, "--line-number", "--max-count", "5", pattern, "."]
    ours, theirs = alternate(
        bench.rounds, lambda: tool.cost(tree, *call(pattern, 100)), lambda: run(bounded, tree)
    )
    note = "ours counts every match, too"
    bench.add(Row(
        "search", what, "s", median(ours), median(ours, "processor"), "ripgrep -m 5", median(theirs),
        ratio(ours, theirs), "", note,
    ))


def scan(bench):
    """POST /scan of a daemon that has seen nothing, and of one that has."""
    for name, tree in repositories(bench):
        if not shutil.which("rg"):
            bench.missing("scan", name, "ripgrep is not installed")
            continue

        def peer(tree=tree):
            return run("rg --no-config --files | wc -l", tree, shell=True)

        listed = searched(["rg", "--no-config", "--files"], tree).count("\n")
        note, equal = f"ripgrep lists {listed:,} files", None if listed else False

        with Product(bench.program) as tool:
            body = {"repo_path": str(tree)}

            def first():
                tool.stop()
                tool.start()
                return tool.post("/scan", body)[1]

            ours, theirs = alternate(bench.rounds, first, peer)
            bench.add(Row(
                "scan", f"POST /scan {name}, first", "s", median(ours), median(ours, "processor"),
                "rg --files | wc -l", median(theirs), ratio(ours, theirs), "3 of ripgrep",
                note, equal,
            ))
            time.sleep(2)
            ours, theirs = alternate(bench.rounds, lambda: tool.post("/scan", body)[1], peer)
            bench.add(Row(
                "scan", f"POST /scan {name}, unchanged", "s", median(ours), median(ours, "processor"),
                "rg --files | wc -l", median(theirs), ratio(ours, theirs), "0.05 s",
                note, equal,
            ))
    if not bench.kernel:
        bench.missing("scan", "kernel", "no kernel tree; --kernel DIR names one")


def index(bench):
    """The first selection of a home that knows nothing, when its index is there, and what a selection costs then."""
    for name, tree in repositories(bench):
        with Product(bench.program) as tool:
            began = time.perf_counter()
            first = tool.cost(tree, "context", "--repo", ".", "--paths", "--", TASKS[0])
            tool.wait_for_words(tree, TASKS[0])
            whole, processor = time.perf_counter() - began, tool.processor()
            tool.wait_for_index(tree, TASKS[0])
            with_trees = time.perf_counter() - began
            bench.add(Row("index", f"first selection {name}", "s", first.seconds, first.processor, wanted="1 s"))
            wanted = "1.5 s" if name == "django" else "20 s"
            bench.add(Row("index", f"first index {name}", "s", whole, processor, wanted=wanted))
            note = "of the files that the task reads; they follow in the background"
            bench.add(Row("index", f"syntax trees {name}", "s", with_trees, tool.processor(), note=note))
            add_index_sizes(bench, name, tree, tool)
            costs = []
            for _ in range(max(1, bench.rounds // 3)):
                costs += [tool.cost(tree, "context", "--repo", ".", "--paths", "--", task) for task in TASKS]
            times = [cost.seconds for cost in costs]
            for share, label, wanted in ((0.5, "p50", ""), (0.95, "p95", "0.15 s")):
                bench.add(Row(
                    "index", f"tool context {name}, warm, {label}", "s", percentile(times, share),
                    median(costs, "processor") if share == 0.5 else None, wanted=wanted,
                ))


# Larger files are not searched (SEARCHED_FILE_BYTES_MAX in host/context/src/index.rs).
SEARCHED_FILE_BYTES_MAX = 16 * 1024 * 1024


def add_index_sizes(bench, name, tree, tool):
    """What the index takes on the disk, and the backend that has it open in memory."""
    sizes = (file.stat().st_size for file in tree.rglob("*") if file.is_file() and not file.is_symlink())
    text = sum(size for size in sizes if size <= SEARCHED_FILE_BYTES_MAX)
    index = sum(file.stat().st_size for file in (tool.home / "index").rglob("*") if file.is_file())
    note = f"{index / text:.1%} of {text / 1e6:,.0f} MB in the files that are searched; 25 % are wanted"
    bench.add(Row("index", f"index on the disk, {name}", "MB", index / 1e6, note=note))
    anonymous = tool.memory("RssAnon") / 1e6
    bench.add(Row("index", f"anonymous memory with the index, {name}", "MB", anonymous, wanted="300 MB"))


def start(bench):
    """`tool service start`, until the daemon has answered."""
    with Product(bench.program) as tool:
        def once():
            tool.stop()
            return tool.cost("/", "service", "start")

        [started] = alternate(bench.rounds, once)
        bench.add(Row("start", "service start", "s", median(started), median(started, "processor")))


TEAM_SKILLS = 50


def team(bench):
    """`tool skill list` and the daemon's start with as many skills of a team as one may have, and without."""
    component = (TARGET / "wasm32-wasip2/skill/echo.wasm").read_bytes()
    with Product(bench.program) as bare, Product(bench.program) as full, tempfile.TemporaryDirectory() as folder:
        for number in range(TEAM_SKILLS):
            name = f"s{number:03}"
            Path(folder, f"{name}.wasm").write_bytes(component.replace(b"echo", name.encode()))
        full.ask("/", "skill", "add", folder, "--yes")
        for tool in (bare, full):
            tool.start()
        listed = [lambda tool=tool: tool.cost("/", "skill", "list") for tool in (full, bare)]
        costs = alternate(bench.rounds, *listed)
        bench.add(Row(
            "team", f"skill list, {TEAM_SKILLS} skills of a team, warm", "s", median(costs[0]),
            median(costs[0], "processor"), "none", median(costs[1]), ratio(costs[0], costs[1]), "0.03 s",
        ))

        def started(tool):
            def once():
                tool.stop()
                return tool.cost("/", "service", "start")
            return once

        costs = alternate(bench.rounds, started(full), started(bare))
        bench.add(Row(
            "team", f"service start, {TEAM_SKILLS} skills of a team", "s", median(costs[0]),
            median(costs[0], "processor"), "none", median(costs[1]), ratio(costs[0], costs[1]), "1.0 of none",
        ))


def memory_note(tool):
    """The rest of what is resident is mapped from files, and the machine takes it back when it needs it."""
    anonymous, most = tool.memory("RssAnon") / 1e6, tool.memory("VmHWM") / 1e6
    return f"{anonymous:.0f} MB of it anonymous; at most {most:.0f} MB so far"


def analyst(bench):
    """`tool explain .` without a language model: the embedded analyst does all of the work."""
    with Product(bench.program) as tool:
        command = "explain", "--repo", ".", "."
        tool.cost(bench.django, *command)
        tool.wait_for_index(bench.django, TASKS[0])
        [taken] = alternate(bench.rounds, lambda: tool.cost(bench.django, *command))
        bench.add(Row(
            "analyst", "explain django by the analyst, warm daemon", "s", median(taken), median(taken, "processor")
        ))
        bench.add(Row(
            "analyst", "daemon after the analyst, resident", "MB", tool.memory() / 1e6, note=memory_note(tool),
        ))


# Tool calls of one answer of the model: ten that read.
CALLS = [
    ("read_file", {"path": "README.rst"}), ("list_files", {}), ("read_file", {"path": "pyproject.toml"}),
    ("list_files", {"path": "django/http"}), ("read_file", {"path": "django/__init__.py"}),
    ("list_files", {"path": "django/core"}), ("read_file", {"path": "django/urls/base.py"}),
    ("search_code", {"pattern": "def path", "path": "django/urls"}), ("read_file", {"path": "django/shortcuts.py"}),
    ("list_files", {"path": "django/db/models"}),
]


def explain(bench):
    """`tool explain .` from command to exit, with a model that answers at once."""
    with Product(bench.program, bench.model.url) as tool:
        command = "explain", "--repo", ".", "."
        bench.model.says()
        tool.cost(bench.django, *command)
        tool.wait_for_index(bench.django, TASKS[0])

        def plain():
            bench.model.says()
            return tool.cost(bench.django, *command)

        def with_calls():
            bench.model.says(CALLS)
            return tool.cost(bench.django, *command)

        def cold():
            tool.stop()
            return plain()

        warm, ten = alternate(bench.rounds, plain, with_calls)
        peers = compare(bench, plain)
        bench.add(Row(
            "explain", "explain django, warm daemon", "s", median(warm), median(warm, "processor"), wanted="0.12 s"
        ))
        more = [Cost(b.seconds - a.seconds, b.processor - a.processor) for a, b in zip(warm, ten, strict=True)]
        bench.add(Row(
            "explain", "ten reading tool calls more", "s", median(more), median(more, "processor"), wanted="0.015 s"
        ))
        bench.add(Row(
            "explain", "daemon after it, resident", "MB", tool.memory() / 1e6, wanted="60 MB", note=memory_note(tool),
        ))
        [started] = alternate(bench.rounds, cold)
        bench.add(Row(
            "explain", "explain django, daemon starts", "s", median(started), median(started, "processor"),
            wanted="0.10 s",
        ))
        for row in peers:
            bench.add(row)
    if not bench.agents:
        bench.missing("explain", "explain django against an agent", "none is named; --agent 'CMD' does")


def compare(bench, plain):
    """The same task by agents: `{url}` in their command is the model server."""
    for agent in bench.agents:
        command = agent.replace("{url}", bench.model.url)
        variables = {**os.environ, "OPENAI_BASE_URL": bench.model.url, "OPENAI_API_BASE": bench.model.url,
                     "OPENAI_API_KEY": "none"}
        try:
            ours, theirs = alternate(bench.rounds, plain, lambda: run_apart(command, bench.django, variables))
        except Failed as failed:
            yield Row("explain", "explain django against an agent", "", note=f"not measured: {failed}")
            continue
        name = command.split()[0].rsplit("/", 1)[-1]
        memory = median(theirs, "memory_bytes") / 1e6
        note = f"{name}: {median(theirs, 'processor'):.2f} s of processor time, {memory:.0f} MB"
        yield Row(
            "explain", "explain django against an agent", "s", median(ours), median(ours, "processor"), name,
            median(theirs), ratio(ours, theirs), note=note,
        )


def stream(bench):
    """Tokens through a session, as fast as they are read: processor time of daemon and command line, and memory."""
    with tempfile.TemporaryDirectory(prefix="tool-bench-") as folder, Product(bench.program, bench.model.url) as tool:
        Path(folder, "README.md").write_text("# Words\n")
        Path(folder, "words.py").write_text("def words():\n    return []\n")
        command = "explain", "--repo", ".", "."
        bench.model.says()
        tool.cost(folder, *command)
        idle = tool.cost(folder, *command).processor
        for one_by_one, tokens, wanted in ((False, bench.tokens, "5 µs"), (True, bench.tokens, "25 µs")):
            bench.model.says(tokens=tokens, one_by_one=one_by_one)
            before = tool.memory()
            with tempfile.TemporaryFile() as answer:
                cost = tool.cost(folder, *command, output=answer)
                answer.seek(0)
                arrived = answer.read().count(b"word")
            if arrived != tokens:
                raise Failed(f"{arrived} of {tokens} tokens arrived")
            form = "each in a write of its own" if one_by_one else "as fast as they are read"
            grown = (tool.memory("VmHWM") - before) / 1e6
            bench.add(Row(
                "stream", f"{tokens:,} tokens, {form}", "µs", (cost.processor - idle) * 1e6 / tokens, wanted=wanted,
                note=f"processor time a token; {cost.seconds:.1f} s in all; {grown:.0f} MB more at the peak",
            ))


def calls(bench):
    """Skill calls inside the engine, by the criterion benchmark `call`, and its price of the sandbox."""
    if not (TARGET / "fixtures/skills").is_dir():
        return bench.missing("calls", "skill calls", "`scripts/fixtures` builds the components that are called")
    command = ["cargo", "bench", "--profile", "dev", "--workspace", "--locked", "--bench", "call"]
    # Criterion runs in the folder of the crate and would look for a relative target folder there, so it gets an
    # absolute path.
    criterion = TARGET / "criterion"
    variables = {
        **os.environ, "CARGO_PROFILE_DEV_OPT_LEVEL": bench.level, "CARGO_TARGET_DIR": str(TARGET),
        "CRITERION_HOME": str(criterion),
    }
    began = time.time()
    done = subprocess.run(command, cwd=bench.root, env=variables, capture_output=True, text=True)
    if done.returncode:
        # The compiler's words name places of this machine, and the note goes into the book.
        bench.say(Row("calls", "skill calls", "", note=done.stderr.strip()[-300:].replace("\n", " ")))
        return bench.missing("calls", "skill calls", f"`{' '.join(command)}` failed")
    for row in call_rows(lambda name: estimate(criterion, name, began)):
        if bench.given:
            row.note = f"own build, optimisation level {bench.level}, not the binary of --tool"
        bench.add(row)


def call_rows(taken):
    """The rows of `call`; `taken` gives the microseconds of a benchmark, or nothing where there is no figure."""
    one, reading = taken("call a trivial skill"), taken("call a skill that reads a file")
    native, eight = taken("read a file natively"), taken("eight callers, a call each")
    yield called("a trivial skill call", "µs", one, wanted="50 µs")
    yield called(
        "a skill call that reads a file", "µs", reading, peer="std::fs", theirs=native,
        ratio=reading / native if reading and native else None,
    )
    more = one * 8 / eight if one and eight else None
    yield called("8 callers at once, throughput of one", "x", more, wanted="1.7 or more")


def called(what, unit, ours, **more):
    if ours is None:
        return Row("calls", what, "", note="not measured: criterion has left no figure")
    return Row("calls", what, unit, ours, **more)


def estimate(criterion, name, since):
    """The median of a criterion benchmark in microseconds; nothing where this run has left none."""
    file = criterion / name.replace("/", "_") / "new/estimates.json"
    try:
        fresh = file.stat().st_mtime >= since - 1
        return json.loads(file.read_text())["median"]["point_estimate"] / 1000 if fresh else None
    except (OSError, ValueError, KeyError):
        return None


MCP_CALLS = 1_000


def mcp(bench):
    """What a call over `tool mcp` costs beside what its receipt says that the skill took."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "app.py").write_text("x = 1\n")
        with Product(bench.program) as tool:
            command = [str(tool.program), "mcp", "--root", folder]
            with subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=tool.variables
            ) as agent:
                taken = sorted(overheads(agent))
    note = f"1,000 calls of read_file over one connection; p95 {taken[len(taken) * 95 // 100]:.0f} µs"
    bench.add(Row("mcp", "a call over MCP, beside the skill", "µs", statistics.median(taken), wanted="1 ms", note=note))


def overheads(agent):
    """Microseconds of each call that are not the skill's own."""
    def ask(number, method, params):
        message = {"jsonrpc": "2.0", "id": number, "method": method, "params": params}
        agent.stdin.write(json.dumps(message).encode() + b"\n")
        agent.stdin.flush()
        return json.loads(agent.stdout.readline())

    ask(0, "initialize", {
        "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "bench", "version": "1"},
    })
    call = {"name": "read_file", "arguments": {"path": "app.py"}}
    for number in range(1, MCP_CALLS + 1):
        began = time.perf_counter()
        answer = ask(number, "tools/call", call)
        took = (time.perf_counter() - began) * 1_000_000
        yield took - answer["result"]["_meta"]["receipt"]["wall_us"]
    agent.stdin.close()


GROUPS = {
    "search": search, "scan": scan, "index": index, "start": start, "team": team, "analyst": analyst, "explain": explain,
    "stream": stream, "calls": calls, "mcp": mcp,
}
