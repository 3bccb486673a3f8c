"""Runs the tests of public packages in the sandbox and outside of it, and compares the counts.

The counts outside are read here, by a reader of its own for each runner, so that a mistake of the product's readers shows."""

import json
import os
import re
import shutil
import subprocess
import time
from pathlib import Path

SECONDS_MAX = 900
HERE = Path(__file__).resolve().parent


class Unavailable(Exception):
    """A package that cannot be measured here, and why."""


def run(argv, folder, variables):
    """Runs a command; the output and the seconds."""
    started = time.monotonic()
    try:
        ended = subprocess.run(
            argv, cwd=folder, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=SECONDS_MAX,
            text=True, errors="replace", stdin=subprocess.DEVNULL,
        )
    except FileNotFoundError as error:
        raise Unavailable(f"`{argv[0]}` is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise Unavailable(f"`{argv[0]}` takes more than {SECONDS_MAX} s") from error
    return ended, time.monotonic() - started


def must(argv, folder, variables):
    ended, _ = run(argv, folder, variables)
    if ended.returncode != 0:
        last = (ended.stdout.strip().splitlines() or ["no output"])[-1]
        raise Unavailable(f"`{' '.join(argv[:3])}` failed: {last[:120]}")
    return ended.stdout


def is_installed(debian):
    """True where this Debian package is installed."""
    ended = subprocess.run(["dpkg-query", "-W", "-f=${Status}", debian], capture_output=True, text=True, check=False)
    return ended.stdout == "install ok installed"


def fetch(package, folder, variables):
    """The folder with the sources of the package, fetched by its registry's own client."""
    tree = folder / "tree"
    if tree.exists():
        return tree
    shutil.rmtree(folder, ignore_errors=True)
    work = folder / "fetched"
    work.mkdir(parents=True)
    name, version = package["name"], package["version"]
    absent = [debian for debian in package.get("debian", []) if not is_installed(debian)]
    if absent:
        raise Unavailable(f"needs `apt-get install {' '.join(absent)}`")
    match package["fetch"]:
        case "pip":
            must(["pip", "download", "-q", "--no-deps", "--no-binary", ":all:", f"{name}=={version}"], work, variables)
            must(["sh", "-c", "tar xf *.tar.gz && rm *.tar.gz"], work, variables)
        case "npm":
            must(["npm", "pack", "--silent", f"{name}@{version}"], work, variables)
            must(["sh", "-c", "tar xf *.tgz && rm *.tgz"], work, variables)
        case "cargo":
            (work / "src").mkdir()
            (work / "src/lib.rs").write_text("")
            manifest = f'[package]\nname = "x"\nversion = "0.0.0"\nedition = "2021"\n[dependencies]\n{name} = "={version}"\n'
            (work / "Cargo.toml").write_text(manifest)
            must(["cargo", "vendor", "-q", "--versioned-dirs", "vendor"], work, variables)
            found = work / "vendor" / f"{name}-{version}"
            (found / ".cargo-checksum.json").unlink(missing_ok=True)
            shutil.copytree(found, tree)
        case "debian":
            must(["apt-get", "source", "-qq", name], work, variables)
        case "debian-binary":
            must(["apt-get", "download", "-qq", package["binary"]], work, variables)
            must(["sh", "-c", "dpkg-deb -x *.deb . && rm *.deb"], work, variables)
            shutil.copytree(work / package["part"], tree)
    if not tree.exists():
        [found] = [entry for entry in work.iterdir() if entry.is_dir()]
        found.rename(tree)
    for argv in package["setup"]:
        must([word.replace("{here}", str(HERE)) for word in argv], tree, variables)
    return tree


def summed(pattern, text):
    """Sums of the groups over all matches; None where nothing matches."""
    found = [tuple(int(number) for number in match) for match in re.findall(pattern, text)]
    return tuple(map(sum, zip(*found, strict=True))) if found else None


def read_outside(form, ended):
    """Passed and failed tests by the runner's own summary."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", ended.stdout)
    match form:
        case "exit":
            return None
        case "pytest":
            def number(word):
                found = re.findall(rf"(\d+) {word}", text.strip().splitlines()[-1])
                return int(found[0]) if found else 0
            return number("passed") + number("xpassed"), number("failed") + number("error")
        case "cargo":
            return summed(r"test result: \S+ (\d+) passed; (\d+) failed", text)
        case "tap":
            passed = re.findall(r"(?m)^# pass +(\d+)", text)
            failed = re.findall(r"(?m)^# fail +(\d+)", text)
            return sum(map(int, passed)), sum(map(int, failed))
        case "go":
            events = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
            ends = [event["Action"] for event in events if event.get("Test")]
            return ends.count("pass"), ends.count("fail")
        case "ctest":
            found = re.findall(r"(\d+) tests? failed out of (\d+)", text)
            if not found:
                return None
            [(failed, total)] = found
            return int(total) - int(failed), int(failed)
        case "surefire":
            # The sums of modules; lines of single classes say their seconds.
            found = re.findall(r"(?m)Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)\s*$", text)
            total, failures, errors, skipped = (sum(map(int, column)) for column in zip(*found, strict=True))
            return total - failures - errors - skipped, failures + errors
        case "phpunit":
            if found := re.findall(r"OK \((\d+) tests?,", text):
                return int(found[0]), 0
            last = re.findall(r"(?m)^Tests: \d+.*$", text)[-1]
            number = {word: int(count) for word, count in re.findall(r"(\w+): (\d+)", last)}
            bad = number.get("Failures", 0) + number.get("Errors", 0)
            return number["Tests"] - bad - number.get("Skipped", 0) - number.get("Incomplete", 0), bad
        case "rspec":
            [(total, failed, pending)] = re.findall(r"(\d+) examples?, (\d+) failures?(?:, (\d+) pending)?", text)
            return int(total) - int(failed) - int(pending or 0), int(failed)
        case "minitest":
            pattern = r"(\d+) (?:runs|tests), \d+ assertions, (\d+) failures, (\d+) errors, (\d+) (?:skips|pendings)"
            [(total, failures, errors, skips)] = re.findall(pattern, text)
            return int(total) - int(failures) - int(errors) - int(skips), int(failures) + int(errors)
    raise ValueError(form)


def in_sandbox(tool, tree, variables):
    """The product's own run: its details, and the seconds of the command."""
    arguments = json.dumps({"timeout_seconds": SECONDS_MAX})
    argv = [tool, "skill", "call", "run_tests", arguments, "--allow", "run-process", "--json", "--repo", str(tree)]
    started = time.monotonic()
    ended = subprocess.run(argv, cwd=tree, env=variables, capture_output=True, text=True, timeout=SECONDS_MAX + 60)
    seconds = time.monotonic() - started
    try:
        answer = json.loads(ended.stdout)
    except ValueError:
        answer = {}
    details = answer.get("details") or {}
    if not details:
        said = ended.stderr.strip().splitlines() or ["no answer"]
        raise Unavailable(" ".join(said)[:300])
    return details, answer, seconds


def measure(package, folder, tool, variables):
    """One row of the table."""
    row = {key: package[key] for key in ("name", "version", "language")}
    try:
        tree = fetch(package, folder, variables)
        ended, outside_seconds = run(package["runner"], tree, variables)
        shutil.rmtree(folder / "outside", ignore_errors=True)
        shutil.rmtree(tree / "target", ignore_errors=True)
        try:
            outside = read_outside(package["form"], ended)
        except (ValueError, IndexError, KeyError) as error:
            last = ended.stdout.strip().splitlines()[-1:] or ["no output"]
            raise Unavailable(f"the runner outside came to no counts: {last[0][:120]}") from error
        first, answer, first_seconds = in_sandbox(tool, tree, variables)
        second, _, second_seconds = in_sandbox(tool, tree, variables)
    except Unavailable as error:
        return row | {"reason": str(error)}
    counts = first.get("counts")
    inside = counts and (
        counts.get("passed", 0) + counts.get("xpassed", 0), counts.get("failed", 0) + counts.get("errors", 0)
    )
    sandbox = re.search(r"sandbox: (\w+)", answer.get("text", ""))
    return row | {
        "runner": first["runner"],
        "outside": outside, "outside_status": ended.returncode, "outside_seconds": round(outside_seconds, 1),
        "inside": inside, "inside_status": first["status"],
        "again": bool(second.get("counts") == counts and second["status"] == first["status"]),
        "first_seconds": round(first_seconds, 1), "second_seconds": round(second_seconds, 1),
        "sandbox": sandbox[1] if sandbox else "?",
    }


def is_equal(row):
    """True where both came to the same result."""
    if row["outside"] is None or row["inside"] is None:
        return (row["outside_status"] == 0) == (row["inside_status"] == "passed")
    return tuple(row["outside"]) == tuple(row["inside"])


def words(counts, status):
    return f"{counts[0]} passed, {counts[1]} failed" if counts else f"status {status}"


def table(rows):
    """The rows as Markdown."""
    lines = [
        "| package | language | runner | outside | in the sandbox | equal | outside, s | first, s | second, s | sandbox |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        name = f"{row['name']} {row['version']}"
        if "reason" in row:
            lines.append(f"| {name} | {row['language']} | – | – | {row['reason']} | – | – | – | – | – |")
            continue
        lines.append(
            f"| {name} | {row['language']} | {row['runner']} | {words(row['outside'], row['outside_status'])} | "
            f"{words(row['inside'], row['inside_status'])} | {'yes' if is_equal(row) else '**no**'} | {row['outside_seconds']} | "
            f"{row['first_seconds']} | {row['second_seconds']} | {row['sandbox']} |"
        )
    return "\n".join(lines) + "\n"


def variables_of(home):
    return dict(os.environ) | {"TOOL_HOME": str(home), "TOOL_BACKEND_PORT": "0", "GOFLAGS": "-buildvcs=false", "CI": "true"}


def folder_of(root: Path, package):
    return root / package["name"].replace("/", "_")
