"""Repositories that are small on disk and expand beyond any memory when they are read."""

import hashlib
import struct
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path

import pygit2
from pygit2.enums import FileMode, ObjectType

from tests.support.repositories import AUTHOR

MakeTree = Callable[[pygit2.Repository], pygit2.Oid]
TREE, BLOB = b"40000", b"100644"


def write_raw_tree(repository: pygit2.Repository, *entries: tuple[bytes, bytes, pygit2.Oid]) -> pygit2.Oid:
    """Writes a tree without any validation by libgit2 or git."""
    data = b"".join(mode + b" " + name + b"\0" + oid.raw for mode, name, oid in entries)
    return repository.odb.write(ObjectType.TREE, data)


def repeat_folders(levels: int = 40, width: int = 10, *, leaf: bool = True, name: bytes = b"d%d") -> MakeTree:
    """Builds a tree with width ** levels paths."""

    def make(repository: pygit2.Repository) -> pygit2.Oid:
        files = [(BLOB, b"page.md", repository.create_blob(b"# Page\n"))] if leaf else []
        tree = write_raw_tree(repository, *files)
        for _ in range(levels):
            tree = write_raw_tree(repository, *((TREE, name % number, tree) for number in range(width)))
        return tree

    return make


def nest_folders(levels: int) -> MakeTree:
    def make(repository: pygit2.Repository) -> pygit2.Oid:
        tree = write_raw_tree(repository, (BLOB, b"page.md", repository.create_blob(b"# Page\n")))
        for _ in range(levels):
            tree = write_raw_tree(repository, (TREE, b"d", tree))
        return tree

    return make


def fill_one_folder(count: int) -> MakeTree:
    def make(repository: pygit2.Repository) -> pygit2.Oid:
        blob = repository.create_blob(b"x")
        return write_raw_tree(repository, *((BLOB, b"%08d" % number, blob) for number in range(count)))

    return make


def name_entry(name: bytes, inside: MakeTree | None = None) -> MakeTree:
    def make(repository: pygit2.Repository) -> pygit2.Oid:
        if inside is None:
            return write_raw_tree(repository, (BLOB, name, repository.create_blob(b"x")))
        return write_raw_tree(repository, (TREE, name, inside(repository)))

    return make


def commit_tree(repository: pygit2.Repository, make: MakeTree, branch: str = "main") -> str:
    """Commits the tree on the branch; its parent is the branch's head, if there is one."""
    ref = f"refs/heads/{branch}"
    parents = [repository.lookup_reference(ref).target] if ref in repository.references else []
    words = [b"tree %s" % str(make(repository)).encode(), *(b"parent %s" % str(p).encode() for p in parents)]
    who = f"{AUTHOR.name} <{AUTHOR.email}> {AUTHOR.time} +0000".encode()
    data = b"\n".join([*words, b"author " + who, b"committer " + who, b"", b"Bomb\n"])
    commit_id = repository.odb.write(ObjectType.COMMIT, data)
    repository.references.create(ref, commit_id, force=True)
    return str(commit_id)


def make_bomb(path: Path, make: MakeTree) -> Path:
    repository = pygit2.init_repository(str(path), bare=True, initial_head="main")
    commit_tree(repository, make)
    return path


def write_growing_delta(path: Path, copies: int) -> int:
    """Adds a file `grown` of `copies` MiB to main, stored as a delta of a few bytes; returns the pack's size."""
    base = bytes(1 << 20)
    ops = b"\xf0\x00\x00\x10" * copies  # copies the first MiB of the base repeatedly
    delta = _encode_delta_size(len(base)) + _encode_delta_size(copies << 20) + ops
    base_oid = hashlib.sha1(b"blob %d\0" % len(base) + base, usedforsecurity=False).digest()
    grown = hashlib.sha1(b"blob %d\0" % (copies << 20), usedforsecurity=False)
    for _ in range(copies):
        grown.update(base)
    body = struct.pack(">4sII", b"PACK", 2, 2)
    body += _encode_pack_header(3, len(base)) + zlib.compress(base)
    body += _encode_pack_header(7, len(delta)) + base_oid + zlib.compress(delta)
    pack = body + hashlib.sha1(body, usedforsecurity=False).digest()
    subprocess.run(["git", "-C", str(path), "index-pack", "--stdin"], input=pack, check=True, capture_output=True)
    repository = pygit2.Repository(str(path))
    builder = repository.TreeBuilder(repository.revparse_single("main^{tree}").peel(pygit2.Tree))
    builder.insert("base", pygit2.Oid(raw=base_oid), FileMode.BLOB)
    builder.insert("grown", pygit2.Oid(raw=grown.digest()), FileMode.BLOB)
    commit_tree(repository, lambda _: builder.write())
    return len(pack)


def _encode_pack_header(kind: int, size: int) -> bytes:
    byte, size = kind << 4 | size & 15, size >> 4
    encoded = bytearray()
    while size:
        encoded.append(byte | 0x80)
        byte, size = size & 0x7F, size >> 7
    return bytes([*encoded, byte])


def _encode_delta_size(size: int) -> bytes:
    encoded = bytearray()
    while size >> 7:
        encoded.append(size & 0x7F | 0x80)
        size >>= 7
    return bytes([*encoded, size])
