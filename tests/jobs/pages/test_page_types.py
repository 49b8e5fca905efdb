"""Pages are recognized by their paths."""

import pytest

from copydesk.jobs.pages.page_types import is_page, is_site_page


@pytest.mark.parametrize(
    ("path", "page", "site_page"),
    [
        ("docs/a.md", True, True),
        ("README.md", True, False),
        ("docs/README.md", True, True),
        ("docs/SUMMARY.md", True, False),
        ("docs/a.rst", True, False),
        ("snippets/a.mdx", True, False),
        ("requirements.txt", False, False),
        ("AGENTS.md", False, False),
        (".github/a.md", False, False),
        ("node_modules/x/README.md", False, False),
        ("a.py", False, False),
    ],
)
def test_pages_are_recognized_by_path(path: str, page: bool, site_page: bool) -> None:
    assert (is_page(path), is_site_page(path)) == (page, site_page)
