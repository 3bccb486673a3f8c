"""Packs the binaries that `scripts/release` has built into `dist/`. Run it through `scripts/release`."""

import argparse
import hashlib
import json
import os
import re
import shutil
import struct
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import archives
import components
import images
import packages
import signing

ROOT = Path(__file__).resolve().parents[2]
DIST = ROOT / "dist"


def run(*command, **options):
    return subprocess.run([str(part) for part in command], check=True, cwd=ROOT, **options)


def read(*command):
    return run(*command, capture_output=True, text=True).stdout


def strip_binary(built, binaries, triple):
    """Splits a built binary into the one that is shipped and its debug symbols, with a build id that debuggers compare.

    The id is made from the shipped bytes, so that they depend on nothing in the symbols. A checksum of the symbols, as
    `.gnu_debuglink` has it, would change the binary with every path that is only in them.
    """
    folder = binaries / triple
    folder.mkdir(parents=True, exist_ok=True)
    tool, symbols = folder / "tool", folder / "tool.debug"
    # The numbers behind the names of functions that several modules share depend on the folder of the build.
    names = set(re.findall(r"\S+\.llvm\.\d+", read("llvm-nm", built)))
    renamed = folder / "renamed"
    renamed.write_text("".join(f"{name} {name.rpartition('.')[0]}\n" for name in sorted(names)))
    run("llvm-objcopy", "--only-keep-debug", "--compress-debug-sections=zlib", f"--redefine-syms={renamed}", built, symbols)
    run("llvm-objcopy", "--strip-all", built, tool)
    note = folder / "build-id"
    note.write_bytes(struct.pack("<III4s", 4, 20, 3, b"GNU\0") + hashlib.sha1(tool.read_bytes()).digest())
    for path in (tool, symbols):
        run("llvm-objcopy", f"--add-section=.note.gnu.build-id={note}", path)
    clear_reserved(symbols)
    tool.chmod(0o755)
    return tool, symbols


def clear_reserved(path):
    """Zeroes the reserved field of compressed sections, which llvm-objcopy leaves as it was in its memory."""
    data = bytearray(path.read_bytes())
    start, (size, count) = struct.unpack_from("<Q", data, 40)[0], struct.unpack_from("<HH", data, 58)
    for header in range(start, start + size * count, size):
        flags, _, offset = struct.unpack_from("<QQQ", data, header + 8)
        if flags & 0x800:
            data[offset + 4 : offset + 8] = bytes(4)
    path.write_bytes(data)


def write_extras(tool, folder):
    """Writes the manual pages and completions, which are the same for every target."""
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "completions").mkdir(parents=True)
    quiet = {"env": {**os.environ, "TOOL_HOME": str(folder / "home")}, "stderr": subprocess.DEVNULL}
    run(tool, "man", "--dir", folder / "man", **quiet)
    for shell, name in (("bash", "tool"), ("zsh", "_tool"), ("fish", "tool.fish")):
        text = run(tool, "completions", shell, stdout=subprocess.PIPE, **quiet).stdout
        (folder / "completions" / name).write_bytes(text)
    for path in ("README.md", "CHANGELOG.md", "LICENSE-MIT", "LICENSE-APACHE"):
        shutil.copy(ROOT / path, folder)


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write_provenance(release, artifacts):
    """Writes how the artifacts were built: an in-toto statement with a SLSA 1.0 predicate."""
    lock = sha256(ROOT / "Cargo.lock")
    statement = {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": path.name, "digest": {"sha256": sha256(path)}} for path in artifacts],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "urn:tool:scripts/release/v1",
                "externalParameters": {"targets": release.triples},
                "internalParameters": {},
                "resolvedDependencies": [
                    {"name": "source", "digest": {"gitCommit": read("git", "rev-parse", "HEAD").strip()}},
                    {"name": "Cargo.lock", "digest": {"sha256": lock}},
                ],
            },
            "runDetails": {
                "builder": {"id": "urn:tool:scripts/release", "version": {"rustc": read("rustc", "--version").strip()}}
            },
        },
    }
    (DIST / "provenance.intoto.json").write_text(json.dumps(statement, indent=2) + "\n")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--build", type=Path, required=True)
    arguments.add_argument("--zig", type=Path, required=True)
    arguments.add_argument("--key", type=Path)
    arguments.add_argument("--full-image", action="store_true")
    arguments.add_argument("triples", nargs="+")
    options = arguments.parse_args()

    shutil.rmtree(DIST, ignore_errors=True)
    DIST.mkdir()
    release = packages.Release(
        root=ROOT,
        dist=DIST,
        work=options.build / "pack",
        triples=options.triples,
        time=int(os.environ["SOURCE_DATE_EPOCH"]),
    )
    for triple in options.triples:
        built = options.build / triple / "release" / "tool"
        release.binaries[triple], release.symbols[triple] = strip_binary(built, release.work, triple)
    native = next(triple for triple in options.triples if triple.startswith(os.uname().machine))
    write_extras(release.binaries[native], release.extras)
    components.write(release, options.zig)
    archives.write(release)
    packages.write(release)
    for triple in options.triples:
        images.write(release, triple, packages.machine(triple))
        if options.full_image and triple == native:
            images.write_full(release, triple, packages.machine(triple))

    artifacts = sorted(path for path in DIST.rglob("*") if path.is_file())
    write_provenance(release, artifacts)
    artifacts.append(DIST / "provenance.intoto.json")
    lines = [f"{sha256(path)}  {path.relative_to(DIST)}\n" for path in sorted(artifacts)]
    (DIST / "SHA256SUMS").write_text("".join(lines))
    if options.key:
        signing.sign(DIST / "SHA256SUMS", options.key)
    for path in sorted(DIST.rglob("*")):
        if path.is_file():
            print(f"{path.stat().st_size:>12,}  {path.relative_to(ROOT)}")


main()
