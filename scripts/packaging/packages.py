"""Packages that install the released binaries: Debian, RPM, Python wheels, npm, Homebrew, Nix, and an install script."""

import base64
import gzip
import hashlib
import json
import os
import shutil
import subprocess
import tomllib
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import archives

NAME = "tool-assistant"
SUMMARY = "A repository-aware code assistant that keeps the model in a sandbox"
LICENSE = "MIT OR Apache-2.0"
# The README is about the folder of a release, and links to files that no package has.
PAGE = f"""# tool

{SUMMARY}, for Linux on x86_64 and aarch64.

    tool init --offline
    tool explain .

This explains the repository that you are in, without a model, a key or the network. `tool init` sets up a model, `tool help` lists
the commands, and `tool doctor` checks your machine.
"""


@dataclass
class Release:
    """One version, packed from `binaries` and `symbols` (by target triple) into `dist`."""

    root: Path
    dist: Path
    work: Path
    triples: list
    time: int
    binaries: dict = field(default_factory=dict)
    symbols: dict = field(default_factory=dict)

    def __post_init__(self):
        manifest = tomllib.loads((self.root / "Cargo.toml").read_text())
        self.version = manifest["workspace"]["package"]["version"]
        self.extras = self.work / "extras"

    def archive_name(self, triple):
        return f"tool-{self.version}-{machine(triple)}-linux"

    def archive(self, triple):
        return self.dist / f"{self.archive_name(triple)}.tar.xz"


def machine(triple):
    return triple.split("-")[0]


def fill(text, **values):
    """Fills `@NAME@` in a template."""
    for name, value in values.items():
        text = text.replace(f"@{name.upper()}@", str(value))
    return text


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


def write(release):
    for triple in release.triples:
        write_system_packages(release, triple)
        write_wheel(release, triple)
    write_npm(release)
    write_descriptions(release)


def write_system_packages(release, triple):
    """The Debian and RPM packages. Their metadata are in `cli/Cargo.toml`, whose paths lead into `target/packed`."""
    packed = release.root / "target" / "packed"
    shutil.rmtree(packed, ignore_errors=True)
    for name, content, mode in package_files(release, triple):
        path = packed / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        path.chmod(mode)
        os.utime(path, (release.time, release.time))
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[machine(triple)]
    deb = release.dist / f"tool_{release.version}_{architecture}.deb"
    rpm = release.dist / f"tool-{release.version}.{machine(triple)}.rpm"
    common = {"check": True, "cwd": release.root, "stdout": subprocess.DEVNULL}
    subprocess.run(
        ["cargo", "deb", "--package", "cli", "--no-build", "--no-strip", "--target", triple, "--output", deb], **common
    )
    subprocess.run(
        ["cargo", "generate-rpm", "--package", "cli", "--arch", machine(triple), "--output", rpm]
        + ["--source-date", str(release.time)],
        **common,
    )


def package_files(release, triple):
    """What a system package holds, as its metadata name it."""
    yield "tool", release.binaries[triple].read_bytes(), 0o755
    yield "tool.service", (release.root / "scripts/packaging/tool.service").read_bytes(), 0o644
    for name in ("bash", "zsh", "fish"):
        file = {"bash": "tool", "zsh": "_tool", "fish": "tool.fish"}[name]
        yield f"completions/{file}", (release.extras / "completions" / file).read_bytes(), 0o644
    for name, path, mode in archives.folder_files(release.extras / "man", "man"):
        yield f"{name}.gz", gzip.compress(path.read_bytes(), mtime=0), mode
    for name in ("LICENSES.txt", "sbom.cdx.json", "README.md", "CHANGELOG.md"):
        yield name, (release.extras / name).read_bytes(), 0o644


def write_wheel(release, triple):
    """A wheel whose script is the binary. A static binary runs with every C library, which two tags say."""
    module, arch = NAME.replace("-", "_"), machine(triple)
    tags = f"manylinux_2_17_{arch}.manylinux2014_{arch}.musllinux_1_1_{arch}"
    info = f"{module}-{release.version}.dist-info"
    files = {
        f"{module}-{release.version}.data/scripts/tool": (release.binaries[triple].read_bytes(), 0o755),
        f"{info}/METADATA": (
            (
                f"Metadata-Version: 2.4\nName: {NAME}\nVersion: {release.version}\nSummary: {SUMMARY}\n"
                f"License-Expression: {LICENSE}\nLicense-File: LICENSES.txt\nRequires-Python: >=3.8\n"
                "Description-Content-Type: text/markdown\n\n"
            ).encode()
            + PAGE.encode(),
            0o644,
        ),
        f"{info}/WHEEL": (
            "Wheel-Version: 1.0\nGenerator: scripts/release\nRoot-Is-Purelib: false\n"
            + "".join(f"Tag: py3-none-{tag}\n" for tag in tags.split("."))
        ).encode(),
        f"{info}/licenses/LICENSES.txt": (release.extras / "LICENSES.txt").read_bytes(),
        f"{info}/sboms/tool.cdx.json": (release.extras / "sbom.cdx.json").read_bytes(),
    }
    path = release.dist / f"{module}-{release.version}-py3-none-{tags}.whl"
    record = ""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as wheel:
        for name, content in files.items():
            data, mode = content if isinstance(content, tuple) else (content, 0o644)
            value = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={value},{len(data)}\n"
            add_entry(wheel, name, data, mode)
        add_entry(wheel, f"{info}/RECORD", (record + f"{info}/RECORD,,\n").encode(), 0o644)


def add_entry(archive, name, data, mode):
    entry = zipfile.ZipInfo(name)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (0o100000 | mode) << 16
    archive.writestr(entry, data)


def write_npm(release):
    """One npm package for each platform, and one that depends on all of them, optionally; no install script runs."""
    common = {"version": release.version, "license": LICENSE}
    platforms = {}
    for triple in release.triples:
        cpu = {"x86_64": "x64", "aarch64": "arm64"}[machine(triple)]
        name = f"{NAME}-linux-{cpu}"
        platforms[name] = release.version
        description = f"{SUMMARY}: the binary for Linux on {cpu}"
        manifest = {"name": name, **common, "description": description, "os": ["linux"], "cpu": [cpu]}
        write_npm_package(
            release,
            manifest,
            [("package/tool", release.binaries[triple], 0o755)]
            + [("package/LICENSES.txt", release.extras / "LICENSES.txt", 0o644)],
        )
    manifest = {
        "name": NAME,
        **common,
        "description": SUMMARY,
        "bin": {"tool": "tool.js", NAME: "tool.js"},
        "optionalDependencies": platforms,
        "engines": {"node": ">=18"},
    }
    files = [("tool.js", 0o755)]
    write_npm_package(
        release,
        manifest,
        [(f"package/{name}", release.root / "scripts/packaging/npm" / name, mode) for name, mode in files]
        + [(f"package/{name}", release.root / name, 0o644) for name in ("LICENSE-MIT", "LICENSE-APACHE")]
        + [("package/README.md", PAGE.encode(), 0o644)],
    )


def write_npm_package(release, manifest, files):
    text = json.dumps(manifest, indent=2) + "\n"
    data = archives.tar([("package/package.json", text.encode(), 0o644), *files], release.time)
    path = release.dist / f"{manifest['name']}-{release.version}.tgz"
    path.write_bytes(gzip.compress(data, 9, mtime=0))


def write_descriptions(release):
    """Files that say where the archives are: the install script, a Homebrew formula and a Nix flake."""
    values = {"version": release.version, "summary": SUMMARY}
    for triple in ("x86_64-unknown-linux-musl", "aarch64-unknown-linux-musl"):
        path = release.archive(triple)
        is_there = path.exists()
        values[f"sha256_{machine(triple)}"] = digest(path) if is_there else "not built"
    for template, name in (("install.sh", "install.sh"), ("formula.rb", "tool.rb"), ("flake.nix", "flake.nix")):
        text = fill((release.root / "scripts/packaging" / template).read_text(), **values)
        path = release.dist / name
        path.write_text(text)
        path.chmod(0o755 if name == "install.sh" else 0o644)
