"""Packs that no git would write, with an index beside each: argv is the objects folder and the kind of pack.

Prints the identifier of a commit. Its tree is the bomb. Identifiers are invented: no reader gets far enough to check
them.
"""

import hashlib
import struct
import sys
import zlib

COMMIT, TREE, BLOB, OFS_DELTA = 1, 2, 3, 6


def varint(number):
    out = bytearray()
    while True:
        byte = number & 0x7F
        number >>= 7
        out.append(byte | (0x80 if number else 0))
        if not number:
            return bytes(out)


def header(kind, size):
    byte = (kind << 4) | (size & 15)
    size >>= 4
    out = bytearray()
    while size:
        out.append(byte | 0x80)
        byte = size & 0x7F
        size >>= 7
    out.append(byte)
    return bytes(out)


def distance(number):
    out = [number & 0x7F]
    number >>= 7
    while number:
        number -= 1
        out.insert(0, 0x80 | (number & 0x7F))
        number >>= 7
    return bytes(out)


def copy_all(size):
    return b"\xf0" + struct.pack("<I", size)[:3] if size < 1 << 24 else None


class Pack:
    def __init__(self):
        self.bytes = bytearray(b"PACK" + struct.pack(">II", 2, 0))
        self.objects = []

    def add(self, name, kind, content, base=None):
        offset = len(self.bytes)
        entry = header(kind, len(content))
        if base is not None:
            entry += distance(offset - base)
        entry += zlib.compress(content, 9)
        self.bytes += entry
        self.objects.append((name, zlib.crc32(entry), offset))
        return offset

    def write(self, folder):
        self.bytes[8:12] = struct.pack(">I", len(self.objects))
        trailer = hashlib.sha1(self.bytes).digest()
        objects = sorted(self.objects)
        fan = [sum(1 for name, _, _ in objects if name[0] <= byte) for byte in range(256)]
        index = b"\xfftOc" + struct.pack(">I", 2) + struct.pack(">256I", *fan)
        index += b"".join(name for name, _, _ in objects)
        index += b"".join(struct.pack(">I", crc) for _, crc, _ in objects)
        index += b"".join(struct.pack(">I", offset) for _, _, offset in objects)
        index += trailer
        index += hashlib.sha1(index).digest()
        stem = f"{folder}/pack/pack-{trailer.hex()}"
        open(stem + ".pack", "wb").write(bytes(self.bytes) + trailer)
        open(stem + ".idx", "wb").write(index)


def name(text):
    return hashlib.sha1(text.encode()).digest()


def bomb(pack, tree):
    """Sixteen megabytes of nothing, copied a hundred times."""
    size = (1 << 24) - 1
    base = pack.add(name("base"), TREE, bytes(size))
    delta = varint(size) + varint(100 * size) + copy_all(size) * 100
    pack.add(tree, OFS_DELTA, delta, base)


def chain(pack, tree):
    """A delta on a delta on a delta."""
    content = b"100644 a\0" + name("a")
    offset = pack.add(name("base"), TREE, content)
    delta = varint(len(content)) + varint(len(content)) + copy_all(len(content))
    for link in range(30000):
        offset = pack.add(name(f"link {link}"), OFS_DELTA, delta, offset)
    pack.add(tree, OFS_DELTA, delta, offset)


def lie(pack, tree):
    """A delta that announces more than anybody has."""
    base = pack.add(name("base"), TREE, b"100644 a\0" + name("a"))
    pack.add(tree, OFS_DELTA, varint(29) + varint((1 << 62) - 1) + copy_all(29), base)


def circle(pack, tree):
    """A delta whose base is itself."""
    offset = len(pack.bytes)
    pack.add(tree, OFS_DELTA, varint(1) + varint(1) + copy_all(1), offset)


folder, kind = sys.argv[1:]
pack, tree = Pack(), name("tree")
{"bomb": bomb, "chain": chain, "lie": lie, "circle": circle}[kind](pack, tree)
commit = f"tree {tree.hex()}\nauthor A <a@b> 0 +0000\ncommitter A <a@b> 0 +0000\n\nx\n".encode()
identifier = hashlib.sha1(b"commit %d\0" % len(commit) + commit).digest()
pack.add(identifier, COMMIT, commit)
pack.write(folder)
print(identifier.hex())
