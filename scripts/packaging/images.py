"""Container images as OCI layouts in a tar file: the binary alone, and one with the tools that tests of projects need.

The layout is written here, because one layer of one file needs no builder, and because it has the same bytes each time.
"""

import gzip
import hashlib
import json
import subprocess

import archives

USER = 65532
ACCOUNT = f"tool:x:{USER}:{USER}::/home/tool:/usr/sbin/nologin\n"
DEBIAN_PACKAGES = "ca-certificates,git,make,nodejs,npm,python3,python3-pip,python3-pytest,python3-venv"
# Pages that no test reads; the copyright files stay.
LEFT_OUT = ("path-exclude=/usr/share/man/*", "path-exclude=/usr/share/locale/*", "path-exclude=/usr/share/doc/*")


def write(release, triple, machine):
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[machine]
    layer = write_layer(release, triple, [("etc/passwd", ACCOUNT.encode(), 0o644)])
    write_layout(release, f"tool-{architecture}.oci.tar", release.version, architecture, [layer])


def write_full(release, triple, machine):
    """The image with Debian's git, Python and Node. Its bytes depend on the day, because Debian's packages do."""
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[machine]
    # The account joins those of Debian, which an image that installs more packages needs. mmdebstrap copies the name and
    # the resolver of the machine that builds; they belong in no image.
    hook = f"printf '{ACCOUNT.strip()}\\n' >>\"$1/etc/passwd\"; rm -f \"$1/etc/hostname\" \"$1/etc/resolv.conf\""
    options = [*LEFT_OUT, "path-include=/usr/share/doc/*/copyright"]
    debian = subprocess.run(
        [
            "mmdebstrap",
            "--quiet",
            "--variant=minbase",
            f"--include={DEBIAN_PACKAGES}",
            *(f"--dpkgopt={option}" for option in options),
            f"--customize-hook={hook}",
            "bookworm",
            "-",
        ],
        check=True,
        stdout=subprocess.PIPE,
    ).stdout
    name = f"tool-full-{architecture}.oci.tar"
    write_layout(release, name, f"{release.version}-full", architecture, [debian, write_layer(release, triple)])


def write_layer(release, triple, files=()):
    """The binary, its licences, and the folders that a run needs.

    The licences lie where the install script puts none: `tool doctor` would name the script as the way to update.
    """
    return archives.tar(
        [
            *files,
            ("licenses/LICENSES.txt", release.extras / "LICENSES.txt", 0o644),
            ("usr/bin/tool", release.binaries[triple].read_bytes(), 0o755),
        ],
        release.time,
        folders=[("home/tool", 0o1777), ("repo", 0o755), ("tmp", 0o1777)],
    )


def write_layout(release, name, tag, architecture, layers):
    blobs = {}

    def add(data, kind):
        value = hashlib.sha256(data).hexdigest()
        blobs[f"blobs/sha256/{value}"] = data
        return {"mediaType": f"application/vnd.oci.image.{kind}", "digest": f"sha256:{value}", "size": len(data)}

    packed = [add(gzip.compress(layer, 6, mtime=0), "layer.v1.tar+gzip") for layer in layers]
    config = {
        "architecture": architecture,
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Env": ["HOME=/home/tool", "PATH=/usr/local/bin:/usr/bin:/bin", "TOOL_BACKEND_PORT=0"],
            "Entrypoint": ["/usr/bin/tool"],
            "WorkingDir": "/repo",
            "Labels": {"org.opencontainers.image.version": release.version},
        },
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{hashlib.sha256(layer).hexdigest()}" for layer in layers]},
    }
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": add(json.dumps(config).encode(), "config.v1+json"),
        "layers": packed,
    }
    described = add(json.dumps(manifest).encode(), "manifest.v1+json")
    described["annotations"] = {"org.opencontainers.image.ref.name": f"tool:{tag}"}
    index = {"schemaVersion": 2, "manifests": [described]}
    files = [(path, data, 0o644) for path, data in blobs.items()]
    files += [("oci-layout", b'{"imageLayoutVersion":"1.0.0"}', 0o644), ("index.json", json.dumps(index).encode(), 0o644)]
    (release.dist / name).write_bytes(archives.tar(files, release.time))
