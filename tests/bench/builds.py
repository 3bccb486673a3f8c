"""Builds of one commit beside each other, measured in turns: a second table of the book."""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from statistics import fmean

from product import Product
from rows import CALLS, SEARCHES, TASKS, UNNARROWED, call
from timing import alternate, median, ratio

EXPLAIN = "explain", "--repo", ".", "."
FIRST_ROUNDS = 3
STREAM_TOKENS = 200_000


class Builds:
    """`programs` by name; the ratio of a row is that of the last to the one before it."""

    def __init__(self, programs, tree, rounds, model, say):
        self.programs, self.tree, self.rounds, self.model, self.say = programs, tree, rounds, model, say
        self.rows = []

    def add(self, what, unit, values, quotient=None, wanted=""):
        row = {"what": what, "unit": unit, "values": values, "ratio": quotient or values[-1] / values[-2], "wanted": wanted}
        self.rows.append(row)
        self.say(row)

    def turns(self, what, *runs, wanted="", rounds=None, processor=False):
        """A row of seconds; where it is asked for, one more of processor time, a mean because the kernel counts it in ticks."""
        costs = alternate(rounds or self.rounds, *runs)
        self.add(what, "s", [median(cost) for cost in costs], ratio(costs[-1], costs[-2]), wanted)
        if processor:
            self.add(f"{what}, processor", "s", [fmean(one.processor for one in cost) for cost in costs])

    def measure(self):
        self.first_starts()
        with ExitStack() as stack:
            tools = [stack.enter_context(Product(program)) for program in self.programs.values()]
            self.without_model(tools)
        with ExitStack() as stack:
            tools = [stack.enter_context(Product(program, self.model.url)) for program in self.programs.values()]
            self.with_model(tools)
        return self.rows

    def first_starts(self):
        """Commands in homes that are new each time."""
        self.model.says()

        def first(program, *command):
            def once():
                with Product(program, self.model.url) as tool:
                    return tool.cost(self.tree, *command)
            return once

        for what, command in (("service start", ("service", "start")), ("explain django", EXPLAIN)):
            runs = [first(program, *command) for program in self.programs.values()]
            self.turns(f"{what}, first of a home", *runs, rounds=FIRST_ROUNDS)

    def each(self, tools, *command):
        return [lambda tool=tool: tool.cost(self.tree, *command) for tool in tools]

    def without_model(self, tools):
        for tool in tools:
            tool.cost(self.tree, *EXPLAIN)
            tool.wait_for_index(self.tree, TASKS[0])
            tool.wait_for_postings()
        self.turns("explain django by the analyst", *self.each(tools, *EXPLAIN), rounds=FIRST_ROUNDS, processor=True)
        self.memory("the analyst", tools)
        read = "skill", "call", "--repo", ".", "read_file", json.dumps({"path": "README.rst"})
        self.turns("a skill call, read_file", *self.each(tools, *read))
        self.turns("search_code django, literal", *self.each(tools, *call(SEARCHES["django"][1][1], 1000)))
        self.turns("search_code django, not narrowed", *self.each(tools, *call(UNNARROWED["django"], 1000)), processor=True)
        select = "context", "--repo", ".", "--paths", "--", TASKS[0]
        self.turns("tool context django", *self.each(tools, *select), processor=True)

        def starts(tool):
            def once():
                tool.stop()
                return tool.cost("/", "service", "start")
            return once

        self.turns("service start", *map(starts, tools))

    def with_model(self, tools):
        self.model.says()
        for tool in tools:
            tool.cost(self.tree, *EXPLAIN)
            tool.wait_for_index(self.tree, TASKS[0])

        def explains(tool, calls=(), starts=False):
            def once():
                self.model.says(calls)
                if starts:
                    tool.stop()
                return tool.cost(self.tree, *EXPLAIN)
            return once

        self.turns("explain django, warm daemon", *map(explains, tools))
        self.turns("explain django with ten tool calls", *(explains(tool, CALLS) for tool in tools), processor=True)
        self.memory("explain with ten tool calls", tools)
        self.turns("explain django, daemon starts", *(explains(tool, starts=True) for tool in tools), wanted="0.10 s")
        self.memory("its start and one explain", tools)
        self.stream(tools)

    def stream(self, tools):
        with tempfile.TemporaryDirectory(prefix="tool-bench-") as folder:
            Path(folder, "README.md").write_text("# Words\n")

            def streams(tool):
                def once():
                    self.model.says(tokens=STREAM_TOKENS)
                    return tool.cost(folder, *EXPLAIN)
                return once

            costs = alternate(FIRST_ROUNDS, *map(streams, tools))
            self.add("a token of a stream, processor", "µs", [median(cost, "processor") * 1e6 / STREAM_TOKENS for cost in costs])

    def memory(self, after, tools):
        anonymous = [tool.memory("RssAnon") / 1e6 for tool in tools]
        self.add(f"daemon after {after}, anonymous", "MB", anonymous)
        self.add(f"daemon after {after}, resident", "MB", [tool.memory() / 1e6 for tool in tools], wanted="60 MB")
