"""Builds a documentation repository with links, anchors, images, code and a complete menu with git fast-import."""

import random
import subprocess
from pathlib import Path

PAGES_PER_SECTION = 100
WORDS = ("alpha", "beta", "gamma", "delta", "docs", "page", "`guide`", "install", "deploy", "server", "client", "token")


def make_repository(path: Path, pages: int) -> Path:
    subprocess.run(["git", "init", "--quiet", "--bare", "--initial-branch=main", str(path)], check=True)
    chance = random.Random(1)
    head = [b"commit refs/heads/main", b"committer Ada <ada@example.org> 1700000000 +0000", b"data 4\nDocs"]
    names = [
        f"section-{number // PAGES_PER_SECTION:03}/page-{number % PAGES_PER_SECTION:03}.md" for number in range(pages)
    ]
    menu = "site_name: Docs\nnav:\n" + "".join(f"  - {name}\n" for name in names)
    files = [
        _encode_fast_import_entry(f"docs/{name}", _render_page(number, pages, chance))
        for number, name in enumerate(names)
    ]
    stream = [
        *head,
        _encode_fast_import_entry("mkdocs.yml", menu),
        _encode_fast_import_entry("docs/img/a.png", "x"),
        *files,
        b"done\n",
    ]
    subprocess.run(["git", "-C", str(path), "fast-import", "--quiet", "--done"], input=b"\n".join(stream), check=True)
    return path


def _render_page(number: int, pages: int, chance: random.Random) -> str:
    """Renders a page of about 2 KB with four headings, ten links, an image and two blocks of code."""
    parts = [f"---\ntitle: Page {number}\ndescription: What page {number} is about\n---\n\n# Page {number}\n"]
    for part in range(4):
        near, section = chance.randrange(PAGES_PER_SECTION), chance.randrange(max(1, pages // PAGES_PER_SECTION))
        words = " ".join(chance.choices(WORDS, k=50))
        links = f"[near](page-{near:03}.md#part-{part}) and [far](../section-{section:03}/page-{near:03}.md)"
        code = "```bash\ncopydesk serve --port 80\n```\n" if part % 2 else "- one\n- two\n"
        parts.append(f"## Part {part}\n\n{words} {links}.\n\n{code}")
    parts.append("[up](#part-0), [site](https://example.com) and ![image](../img/a.png)\n")
    return "\n".join(parts)


def _encode_fast_import_entry(path: str, text: str) -> bytes:
    data = text.encode()
    return b"M 100644 inline %b\ndata %d\n%b" % (path.encode(), len(data), data)
