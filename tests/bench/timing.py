"""What a command costs: wall time, processor time and the most memory it held; and pairs of commands in turns."""

import json
import os
import statistics
import subprocess
import sys
import time
from dataclasses import asdict, dataclass


@dataclass
class Cost:
    """Of one run. `processor` is user and system time of the command and its children, and of the daemon behind it."""

    seconds: float
    processor: float = 0.0
    memory_bytes: int = 0


def run(command, directory, variables=None, shell=False, output=subprocess.DEVNULL, fine=(0,)):
    """Runs a command with its output thrown away; fails where it ends otherwise than `fine`, or with a complaint."""
    began = time.perf_counter()
    process = subprocess.Popen(
        command, cwd=directory, env=variables, shell=shell, stdin=subprocess.DEVNULL, stdout=output,
        stderr=subprocess.PIPE,
    )
    said = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    seconds = time.perf_counter() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    process.stderr.close()
    if process.returncode not in fine or (process.returncode and said.strip()):
        raise Failed(f"`{command}` ended with {process.returncode}: {said.decode(errors='replace').strip()[-300:]}")
    return Cost(seconds, used.ru_utime + used.ru_stime, used.ru_maxrss * 1024)


def run_apart(command, directory, variables):
    """The same for a command line whose memory matters: a process begins with the memory of the one that started it, so
    a small one does."""
    this = [sys.executable, __file__, command]
    done = subprocess.run(this, cwd=directory, env=variables, capture_output=True, text=True)
    if done.returncode:
        raise Failed(done.stderr.strip().splitlines()[-1])
    return Cost(**json.loads(done.stdout))


class Failed(Exception):
    """A command that was to be measured did not do its work."""


def alternate(rounds, *runs):
    """Each of the runs once unmeasured, then in turns, the first one changing; the costs of each."""
    for once in runs:
        once()
    costs = [[] for _ in runs]
    for at in range(rounds):
        order = range(len(runs)) if at % 2 == 0 else reversed(range(len(runs)))
        for which in order:
            costs[which].append(runs[which]())
    return costs


def median(costs, what="seconds"):
    return statistics.median(getattr(cost, what) for cost in costs)


def ratio(ours, peers):
    """The median of the ratios of the pairs: what one round suffers, both suffer."""
    return statistics.median(a.seconds / b.seconds for a, b in zip(ours, peers, strict=True))


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]


if __name__ == "__main__":
    print(json.dumps(asdict(run(sys.argv[1], ".", shell=True))))
