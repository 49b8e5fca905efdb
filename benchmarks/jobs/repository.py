"""Builds documentation repositories of any size with git fast-import: one pack, one commit, branch main."""

import random
import shutil
import subprocess
from pathlib import Path

PAGES_PER_SECTION = 100
PAGE = "docs/section-000/page-042.md"
"""A page that every repository has, for prompts that name one."""
PAGES_WITH_RARE_WORD = (7, 42, 77)
"""Pages of the first section, the only ones that contain `alphaword`."""
WORDS = ("alpha", "beta", "gamma", "delta", "docs", "page", "guide", "install", "deploy", "server", "client", "token")


def make_repository(path: Path, pages: int) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)
    chance = random.Random(1)
    head = [b"commit refs/heads/main", b"committer Ada <ada@example.org> 1700000000 +0000", b"data 4\nDocs"]
    files = [_encode_fast_import_entry(number, _render_page(number, chance)) for number in range(pages)]
    stream = b"\n".join([*head, *files, b"done\n"])
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet", "--done"], input=stream, check=True)
    return path


def copy_repository(repository: Path, path: Path) -> Path:
    """Copies the repository: each contender gets a copy, so that it does not see the branches of another."""
    return Path(shutil.copytree(repository, path))


def _render_page(number: int, chance: random.Random) -> str:
    lines = [" ".join(chance.choices(WORDS, k=12)) for _ in range(30)]
    if number in PAGES_WITH_RARE_WORD:
        lines.append("The alphaword is here.")
    following = f"page-{(number + 1) % PAGES_PER_SECTION:03}.md"
    body = "\n".join(lines)
    return f"---\ntitle: Page {number}\n---\n\n# Page {number}\n\n{body}\n\n[next]({following})\n"


def _encode_fast_import_entry(number: int, text: str) -> bytes:
    section, page = divmod(number, PAGES_PER_SECTION)
    data = text.encode()
    return b"M 100644 inline docs/section-%03d/page-%03d.md\ndata %d\n%b" % (section, page, len(data), data)
