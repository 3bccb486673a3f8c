"""The product with a home of its own and a daemon that ends with it: what the benchmarks and the localisation share."""

import http.client
import json
import os
import subprocess
import tempfile
import time
from pathlib import Path

from timing import Cost, Failed, run

ROOT = Path(__file__).resolve().parent.parent.parent
# Like cargo when it runs in the project: a relative folder is one of the project.
TARGET = ROOT / os.environ.get("CARGO_TARGET_DIR", "target")
TICKS = os.sysconf("SC_CLK_TCK")


class Product:
    """See the module. `model` is the address of a model server; without it the embedded analyst answers."""

    def __init__(self, program, model=None):
        self.program = Path(program).resolve()
        self.folder = tempfile.TemporaryDirectory(prefix="tool-home-")
        self.home = Path(self.folder.name)
        home = str(self.home)
        self.variables = {
            "PATH": os.environ["PATH"], "HOME": home, "TOOL_HOME": home, "TOOL_BACKEND_PORT": "0", "LANG": "C.UTF-8"
        }
        if model:
            config = f'[providers.local]\nurl = "{model}"\nmodel = "scripted"\nenabled = true\n'
            (self.home / "config.toml").write_text(config)
        else:
            self.ask("/", "init", "--offline")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        try:
            self.stop()
        finally:
            self.folder.cleanup()

    def ask(self, directory, *arguments):
        """What a command prints on standard output."""
        command = [self.program, *arguments]
        done = subprocess.run(
            command, cwd=directory, env=self.variables, stdin=subprocess.DEVNULL, capture_output=True, text=True
        )
        if done.returncode:
            raise Failed(f"`tool {' '.join(arguments)}` ended with {done.returncode}: {done.stderr.strip()[-400:]}")
        return done.stdout

    def cost(self, directory, *arguments, **options):
        """What a command costs, the daemon's part included."""
        before = self.processor()
        cost = run([self.program, *arguments], directory, self.variables, **options)
        after = self.processor()
        # A daemon that this command has started begins at nothing.
        cost.processor += after - before if after >= before else after
        cost.memory_bytes = self.memory("VmHWM")
        return cost

    def start(self):
        self.ask("/", "service", "start")

    def stop(self):
        self.ask("/", "service", "stop")

    def record(self):
        try:
            return json.loads((self.home / "backend.json").read_text())
        except OSError:
            return None

    def processor(self):
        """Processor time of the daemon so far, in seconds; 0 where none runs."""
        record = self.record()
        try:
            stat = Path(f"/proc/{record['pid']}/stat").read_text() if record else ""
        except OSError:
            return 0.0
        fields = stat.rsplit(") ", 1)[-1].split()
        return (int(fields[11]) + int(fields[12])) / TICKS if fields else 0.0

    def memory(self, what="VmRSS"):
        """Resident memory of the daemon in bytes: `VmRSS` now, `VmHWM` at most so far."""
        record = self.record()
        try:
            status = Path(f"/proc/{record['pid']}/status").read_text() if record else ""
        except OSError:
            return 0
        lines = (line.split() for line in status.splitlines())
        return next((int(line[1]) * 1024 for line in lines if line and line[0] == f"{what}:"), 0)

    def post(self, path, body):
        """The answer to a request of the same user, and what it cost."""
        before, began = self.processor(), time.perf_counter()
        connection = http.client.HTTPConnection("127.0.0.1", self.record()["port"])
        connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        cost = Cost(time.perf_counter() - began, self.processor() - before)
        connection.close()
        if answer.status != 200:
            raise Failed(f"POST {path} answered {answer.status}: {text[:300]!r}")
        return json.loads(text), cost

    def select(self, tree, task, operation="refactor"):
        """The answer of `tool context --json`."""
        return json.loads(self.ask(tree, "context", "--repo", ".", "--operation", operation, "--json", "--", task))

    def wait_for_postings(self, seconds_max=300):
        """Waits until the index that a search has begun is written."""
        until, sizes = time.monotonic() + seconds_max, []
        while len(sizes) < 8 or len(set(sizes[-8:])) > 1 or not sizes[-1]:
            if time.monotonic() > until:
                raise Failed(f"the index was not ready within {seconds_max} s")
            time.sleep(0.5)
            files = (self.home / "index").glob("*/*")
            sizes.append(sum(file.stat().st_size for file in files if file.exists()))

    def wait_for_words(self, tree, task, seconds_max=300):
        """Waits until a selection has looked at every file. Syntax trees may follow."""
        self.wait_for_notices(tree, task, seconds_max, lambda notice: "files were considered" in notice)

    def wait_for_index(self, tree, task, seconds_max=900):
        """Waits until the files that a selection reads have their syntax trees, too."""
        self.wait_for_notices(tree, task, seconds_max, lambda notice: "files" in notice)

    def wait_for_notices(self, tree, task, seconds_max, is_early):
        """Asks ever less often: each question costs the index time, and the answer is at most an eighth too late."""
        began = time.monotonic()
        while any(is_early(notice) for notice in self.select(tree, task)["notices"]):
            waited = time.monotonic() - began
            if waited > seconds_max:
                raise Failed(f"the index of {tree} was not ready within {seconds_max} s")
            time.sleep(max(0.25, waited / 8))
