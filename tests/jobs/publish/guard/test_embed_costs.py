"""Parsing a hostile file takes time in proportion to its size: twice the text may take about twice the CPU time."""

from time import thread_time

import pytest

from copydesk.jobs.publish.guard.embeds.by_file_type import find_embeds

SIZE = 12_000
LEAST_SECONDS = 0.04
"""Shorter times measure the clock and the machine more than the parser."""
MOST_RATIO = 3.4
TRIES = 4

REPEATED = [
    ("a.md", "!["), ("a.md", "["), ("a.md", "![a]("), ("a.md", "[a](<"), ("a.md", "*_"), ("a.md", "`"),
    ("a.md", "<a b="), ("a.md", "<!--"), ("a.md", "<!-- --> "), ("a.md", "<style>"), ("a.md", "{"), ("a.md", "{{<"),
    ("a.md", "> "), ("a.md", "- "), ("a.md", "a <![CDATA["), ("a.md", "import a\n\n"), ("a.md", "    a\n\n"),
    ("a.md", "```\n"), ("a.mdx", "{"), ("a.mdx", "<X a={"), ("a.mdx", "import a from 'b'\n"), ("a.mdx", "{a(`"),
    ("a.mdx", "~~~~\n```\n"),
    ("a.rst", "`a\n"), ("a.rst", "*a\n"), ("a.rst", ".. x:: y\n\n"), ("a.adoc", "a:"), ("a.adoc", "----\n"),
    ("a.adoc", ":a: {a}{a}\n"), ("a.html", "<"), ("a.html", "<p a=1 "), ("a.html", "&#"), ("a.css", "url("),
    ("a.css", "/*"), ("a.css", "\\75 "), ("mkdocs.yml", "- a: b\n"), ("docs.json", "["),
]  # fmt: skip


def build_page(unit: str, size: int) -> str:
    return unit * (size // len(unit)) + "\n\n[a]: https://evil.example/x\n"


def measure_seconds(path: str, text: str) -> float:
    """Returns the CPU seconds of parsing the text, without cached results."""
    find_embeds.cache_clear()
    began = thread_time()
    find_embeds(path, text)
    return thread_time() - began


def check_ratio(path: str, short: str, long: str) -> None:
    """Passes as soon as one of a few attempts shows that twice the text takes about twice the time."""
    ratios = []
    for _ in range(TRIES):
        once, twice = measure_seconds(path, short), measure_seconds(path, long)
        if twice < LEAST_SECONDS:
            return
        ratios.append(twice / max(once, LEAST_SECONDS / 4))
        if ratios[-1] < MOST_RATIO:
            return
    pytest.fail(f"twice the text took {', '.join(f'{ratio:.1f}' for ratio in ratios)} times the CPU time")


@pytest.mark.deep
@pytest.mark.parametrize(("path", "unit"), REPEATED, ids=lambda value: ascii(value))
def test_parsing_time_is_linear_in_size(path: str, unit: str) -> None:
    measure_seconds(path, "words")
    check_ratio(path, build_page(unit, SIZE), build_page(unit, 2 * SIZE))


@pytest.mark.deep
def test_tag_with_many_spaces_is_parsed_in_linear_time() -> None:
    measure_seconds("a.md", "words")
    check_ratio("a.md", "<iframe =" + " " * 40_000, "<iframe =" + " " * 80_000)


@pytest.mark.parametrize("path", ["a.md", "a.rst", "a.html", "mkdocs.yml"])
def test_huge_file_is_not_parsed_and_counts_as_an_embed(path: str) -> None:
    embeds = find_embeds(path, "a: b\n" * 300_000)
    assert [embed.kind for embed in embeds] == ["script"]
