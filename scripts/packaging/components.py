"""The bill of materials (CycloneDX) and the licence texts of everything in a released binary.

Three sources: `cargo cyclonedx` and `cargo about` for the crates of the program and of the embedded components, and
`native.toml` for C code, which no crate registry lists.
"""

import json
import re
import subprocess
import tomllib
from pathlib import Path


def write(release, zig):
    """Writes `sbom.cdx.json` and `LICENSES.txt` into the extras and the folder of the release."""
    native = read_native(release, zig)
    bill = merge_bills(release, native)
    texts = licence_texts(release, bill, native)
    (release.extras / "sbom.cdx.json").write_text(json.dumps(bill, indent=1) + "\n")
    (release.extras / "LICENSES.txt").write_text(texts)
    for name in ("sbom.cdx.json", "LICENSES.txt"):
        (release.dist / name).write_bytes((release.extras / name).read_bytes())


def embedded_packages(root):
    """Workspace members that the program embeds as components: the skills, and the guest of `tool doctor --sandbox`."""
    libraries = {"details", "encoding", "sdk", "syntax", "outline", "test_results"}
    folders = [path.parent for path in sorted(root.glob("skills/*/Cargo.toml")) if path.parent.name not in libraries]
    folders += [path.parent for path in sorted(root.glob("skills/outline/*/Cargo.toml"))]
    return [*folders, root / "tests/guests/hostile"]


def merge_bills(release, native):
    """One bill of the program for each target and of the embedded components, without development dependencies."""
    root = release.root
    members = [(root / "cli", triple) for triple in release.triples]
    members += [(folder, "wasm32-wasip2") for folder in embedded_packages(root)]
    parts, own = {}, None
    for triple in [*release.triples, "wasm32-wasip2"]:
        name = f"bill-{triple}.cdx"
        command = ["cargo", "cyclonedx", "--format", "json", "--spec-version", "1.5", "--target", triple]
        subprocess.run([*command, "--override-filename", name], check=True, cwd=root, stderr=subprocess.DEVNULL)
        for folder in (folder for folder, target in members if target == triple):
            bill = json.loads((folder / f"{name}.json").read_text())
            main = bill["metadata"]["component"]
            own = own or main
            built = resolved(root, main["name"], triple)
            for component in [main, *bill.get("components", [])]:
                component.pop("components", None)
                if (component["name"], component["version"]) in built:
                    parts[component["purl"].split("?")[0]] = portable(component)
        for path in root.rglob(f"{name}.json"):
            path.unlink()
    for part in native:
        parts[f"pkg:generic/{part['name']}@{part['version']}"] = {
            "type": "library",
            "name": part["name"],
            "version": part["version"],
            "licenses": [{"expression": part["license"]}],
            "purl": f"pkg:generic/{part['name']}@{part['version']}",
            "description": part["use"],
        }
    own = parts.pop(f"pkg:cargo/{own['name']}@{own['version']}")
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {"component": {**own, "name": "tool", "type": "application"}},
        "components": [parts[key] for key in sorted(parts)],
    }


def resolved(root, package, triple):
    """Names and versions of what a package is built from. The bill also has crates that only other members switch on."""
    command = ["cargo", "tree", "--locked", "--package", package, "--target", triple, "--edges", "no-dev"]
    listed = subprocess.run(
        [*command, "--prefix", "none", "--format", "{p}"], check=True, cwd=root, capture_output=True, text=True
    ).stdout
    return {(name, version.removeprefix("v")) for name, version, *_ in map(str.split, filter(None, listed.splitlines()))}


def portable(component):
    """A component without the paths of this machine."""
    purl = component["purl"].split("?")[0]
    kept = ("type", "author", "name", "version", "description", "hashes", "licenses", "externalReferences")
    return {"bom-ref": purl, **{key: component[key] for key in kept if key in component}, "purl": purl}


def read_native(release, zig):
    """C code in the binary and in the components: the rows of `native.toml`, with the texts of their licences."""
    metadata = json.loads(
        subprocess.run(
            ["cargo", "metadata", "--format-version", "1", "--locked"],
            check=True,
            cwd=release.root,
            capture_output=True,
        ).stdout
    )
    crates = {package["name"]: package for package in metadata["packages"]}
    rows = tomllib.loads((release.root / "scripts/packaging/native.toml").read_text())["part"]
    for row in rows:
        if "crate" in row:
            folder = Path(crates[row["crate"]]["manifest_path"]).parent
            row.setdefault("version", crates[row["crate"]]["version"].split("+")[-1].split("-")[0])
        else:
            folder = {"zig": zig, "system": Path("/")}[row["from"]]
        if isinstance(row["version"], list):
            row["version"] = header_version(folder, *row["version"])
        row["text"] = "\n\n".join((folder / name).read_text(errors="replace").strip() for name in row["texts"])
    return rows


def header_version(folder, name, pattern):
    """A version that a header defines, which moves with the source, as a number of this repository would not."""
    found = re.search(pattern, (folder / name).read_text())
    if not found:
        raise SystemExit(f"error: {folder / name} does not match {pattern}; see scripts/packaging/native.toml")
    return ".".join(part.lstrip("0") or "0" if part.isdigit() else part for part in found.groups())


def licence_texts(release, bill, native):
    """All licence texts, each with the parts that it covers; an error where a part has none."""
    about = ["cargo", "about", "generate", "--workspace", "--format", "json", "--offline", "--config"]
    found = json.loads(
        subprocess.run(
            [*about, release.root / "scripts/packaging/about.toml"], check=True, cwd=release.root, capture_output=True
        ).stdout
    )
    wanted = {(part["name"], part["version"]) for part in bill["components"]}
    sections, covered = [], set()
    for licence in found["licenses"]:
        users_by_text = {}
        for crate in (use["crate"] for use in licence["used_by"]):
            part = (crate["name"], crate["version"])
            # Our own crates have no text of theirs: the texts of the whole come first.
            if part in wanted and crate["source"]:
                users_by_text.setdefault(crate_text(crate, licence), []).append(" ".join(part))
                covered.add(part)
        for text, users in users_by_text.items():
            sections.append(f"{licence['name']}\n\nUsed by: {', '.join(sorted(users))}\n\n{text}\n")
    own = [(release.root / name).read_text() for name in ("LICENSE-MIT", "LICENSE-APACHE")]
    for row in native:
        covered.add((row["name"], row["version"]))
        sections.append(f"{row['license']}\n\nUsed by: {row['name']} {row['version']}\n\n{row['text']}\n")
    members = {crate["package"]["name"] for crate in found["crates"] if not crate["package"]["source"]}
    missing = sorted(part for part in wanted - covered if part[0] not in members)
    if missing:
        raise SystemExit(f"error: no licence text for {missing}; see scripts/packaging/about.toml")
    rule = "\n" + "-" * 100 + "\n\n"
    head = "tool is licensed under MIT OR Apache-2.0. It contains the work of others under the licences below these two.\n"
    return head + rule + rule.join([*own, *sections])


def crate_text(crate, licence):
    """The text of a crate's licence, with its copyright.

    Where `cargo about` does not recognise a file, its text is that of the licence with blanks for the names of people.
    """
    if licence["source_path"]:
        return licence["text"].strip()
    names = ("licen", "copying", "notice")
    folder = Path(crate["manifest_path"]).parent
    files = [path for path in sorted(folder.iterdir()) if path.is_file() and path.name.lower().startswith(names)]
    if files:
        return "\n\n".join(path.read_text(errors="replace").strip() for path in files)
    authors = ", ".join(crate["authors"]) or f"the authors of {crate['name']}"
    return re.sub(r"<year> <copyright holders>|\[year\] \[fullname\]", lambda _: authors, licence["text"].strip())
