"""Released packages, unpacked: fetched by name and version with the ecosystem's own client, checked against the digest
that is pinned, and kept. Nothing of a package runs for it: no build backend, no script, no installation."""

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path


class Missing(Exception):
    """A release that could not be had, or is not what was pinned."""


def fetch(package, folder, offline=False):
    """The folder with the release; fetched where it is not there, unless that is an error."""
    name, version = package["name"], package["version"]
    tree = folder / f"{name}-{version}"
    if tree.is_dir():
        return tree
    if offline:
        raise Missing(f"{tree} is missing: run scripts/fixtures")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder) as work:
        work = Path(work)
        archive = CLIENTS[package["ecosystem"]](work, name, version)
        digest = hashlib.sha256(archive.read_bytes()).hexdigest()
        if digest != package["sha256"]:
            raise Missing(f"`{name}` {version} is not what was pinned: it has the sha256 {digest}")
        with tarfile.open(archive) as unpacked:
            unpacked.extractall(work / "tree", filter="data")
        [top] = (work / "tree").iterdir()
        shutil.move(top, tree)
    return tree


def run(command, directory, **variables):
    done = subprocess.run(
        command, cwd=directory, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, capture_output=True,
        text=True,
    )
    if done.returncode:
        raise Missing(f"`{' '.join(map(str, command))}` failed: {done.stderr.strip()[-400:]}")


# pip has no command that only downloads a source archive: it asks the package's build backend for the metadata, which
# is code of the package. So pip runs in a process that starts no other: where it tries to and the archive is there, it
# has done all that is wanted of it. What it would start before that (`rustc --version`, to name its machine) it does
# without.
PIP_ALONE = """
import os, pathlib, runpy, sys

STARTS = {"subprocess.Popen", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.system"}

def alone(event, _):
    if event in STARTS:
        if any(pathlib.Path(os.environ["TMPDIR"]).rglob("*.tar.gz")):
            os._exit(0)
        raise PermissionError("nothing is started while a source archive is fetched")

sys.addaudithook(alone)
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


def pypi(work, name, version):
    pip = [sys.executable, "-c", PIP_ALONE, "download", "--quiet", "--disable-pip-version-check"]
    temporary = work / "temporary"
    temporary.mkdir()
    run([*pip, "--no-deps", "--no-binary", ":all:", "--dest", work, f"{name}=={version}"], work, TMPDIR=str(temporary))
    # The archive lies where pip unpacks it, or where it was to go if nothing had to be asked.
    return only(work, "*.tar.gz", "temporary/pip-unpack-*/*.tar.gz")


def npm(work, name, version):
    run(["npm", "pack", "--silent", "--ignore-scripts", f"{name}@{version}"], work)
    return only(work, "*.tgz")


def cargo(work, name, version):
    """Cargo has no command that only downloads; it does so to describe a package."""
    run(["cargo", "info", "--quiet", f"{name}@{version}"], work, CARGO_HOME=str(work / "home"))
    return only(work, f"home/registry/cache/*/{name}-{version}.crate")


CLIENTS = {"pypi": pypi, "npm": npm, "crates": cargo}


def only(folder, *patterns):
    found = [path for pattern in patterns for path in folder.glob(pattern)]
    if len(found) != 1:
        raise Missing(f"{len(found)} source archives `{patterns[0]}`, where there has to be one")
    return found[0]
