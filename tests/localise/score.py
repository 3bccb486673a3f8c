"""How good a selection is: the floor that it is compared with, and the figures."""

import collections
import math
import os
import random
import re
from pathlib import Path

from history import ASIDE

# What of a selection counts.
FILES_MAX = 6
SOURCE = (".py", ".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".rs", ".go", ".java")
SKIPPED = {".git", "node_modules", "__pycache__", "venv", ".venv", "env", "dist", "build"}


def words(text):
    """Identifiers, whole and in their parts, in lower case."""
    for word in re.findall(r"[A-Za-z_]\w*", text):
        yield word.lower()
        parts = re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+(?![a-z])", word)
        if len(parts) > 1:
            yield from (part.lower() for part in parts)


class Bm25:
    """BM25 over whole source files (k1 1.2, b 0.75), the path included: what a search engine does alone. It ranks
    tests, documents and scripts, too, which are never what is asked for; with `aside` it never sees them, either."""

    def __init__(self, root, aside=False):
        self.files, self.holders = {}, collections.Counter()
        for directory, folders, names in os.walk(root):
            folders[:] = sorted(set(folders) - SKIPPED)
            for path in (Path(directory, name) for name in sorted(names) if name.endswith(SOURCE)):
                relative = path.relative_to(root).as_posix()
                if aside and ASIDE.search(relative):
                    continue
                text = path.read_text(encoding="utf-8", errors="replace")
                counts = collections.Counter(words(relative + " " + text))
                self.files[relative] = counts, counts.total()
                self.holders.update(counts.keys())
        self.mean = sum(length for _, length in self.files.values()) / max(1, len(self.files))

    def __call__(self, query):
        asked = set(words(query)) & self.holders.keys()
        rarity = {word: self.rarity(word) for word in asked}

        def score(path):
            counts, length = self.files[path]
            norm = 1.2 * (0.25 + 0.75 * length / self.mean)
            return sum(rarity[word] * counts[word] * 2.2 / (counts[word] + norm) for word in asked)

        return sorted(self.files, key=lambda path: (-score(path), path))[:FILES_MAX]

    def rarity(self, word):
        holders = self.holders[word]
        return math.log(1 + (len(self.files) - holders + 0.5) / (holders + 0.5))


def measure(truth, paths):
    """Recall, hit and reciprocal rank among the first six."""
    paths = paths[:FILES_MAX]
    first = next((at for at, path in enumerate(paths, 1) if path in truth), None)
    found = len(set(truth) & set(paths)) / len(truth)
    return {"recall@6": found, "hit@6": float(first is not None), "mrr": 1 / first if first else 0.0}


def mean(values):
    values = list(values)
    return sum(values) / len(values) if values else 0.0


def interval(values, rounds=2000):
    """Where 95 % of the means lie when as many cases are drawn again, with repetition."""
    dice, values = random.Random(1), list(values)
    means = sorted(mean(dice.choices(values, k=len(values))) for _ in range(rounds))
    return means[int(rounds * 0.025)], means[int(rounds * 0.975)]


def percentile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(len(values) * share))]
