"""Archives that depend on nothing but their content: sorted names, one time, no owner."""

import io
import lzma
import tarfile


def tar(files, time, folders=()):
    """A tar file of triples of name, path or bytes, and mode; and of empty folders with their modes."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT) as archive:
        for name, content, mode in sorted(files, key=lambda file: file[0]):
            data = content if isinstance(content, bytes) else content.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mtime, entry.mode = len(data), time, mode
            archive.addfile(entry, io.BytesIO(data))
        for name, mode in folders:
            entry = tarfile.TarInfo(name)
            entry.type, entry.mtime, entry.mode = tarfile.DIRTYPE, time, mode
            archive.addfile(entry)
    return buffer.getvalue()


def folder_files(folder, prefix):
    """All files of a folder, under a prefix."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield f"{prefix}/{path.relative_to(folder)}", path, 0o644


def write(release):
    for triple, tool in release.binaries.items():
        name = release.archive_name(triple)
        files = [(f"{name}/tool", tool, 0o755), *folder_files(release.extras, name)]
        compressed = lzma.compress(tar(files, release.time), preset=9 | lzma.PRESET_EXTREME)
        (release.dist / f"{name}.tar.xz").write_bytes(compressed)
        symbols = tar([(f"{name}/tool.debug", release.symbols[triple], 0o644)], release.time)
        (release.dist / f"{name}-debug.tar.xz").write_bytes(lzma.compress(symbols, preset=6))
