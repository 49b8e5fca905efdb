"""Imports in the script blocks of VitePress pages are references: they are checked, and follow a move."""

import pytest

from copydesk.jobs.checks import check
from copydesk.jobs.pages.move_page import move_page
from copydesk.jobs.pages.parsing.page_parser import find_references
from tests.jobs.conftest import MakeWorkspace

VITEPRESS = {
    "docs/.vitepress/config.ts": b"export default {}\n",
    "docs/.vitepress/theme/Chart.vue": b"<template/>\n",
    "docs/guides/limits.ts": b"export const limit = 1\n",
    "docs/parts/note.md": b"# Note\n",
}
PAGE = b"""<script setup lang="ts">
import { ref } from 'vue'
// import Old from './old.vue'
import Chart from '../.vitepress/theme/Chart.vue'
import { limit } from './limits'
  import Note from '../parts/note.md'
const later = () => import('./limits.ts')
</script>

# Retries

<Chart :limit="limit" />

```vue
<script setup>
import Example from './example.vue'
</script>
```
"""


def test_imports_in_scripts_are_found_but_not_those_in_comments_and_examples() -> None:
    found = [each.target for each in find_references("a.md", PAGE.decode()) if each.kind == "script"]
    assert found == ["vue", "../.vitepress/theme/Chart.vue", "./limits", "../parts/note.md", "./limits.ts"]
    assert all(PAGE.decode()[each.start : each.end] == each.target for each in find_references("a.md", PAGE.decode()))


def test_import_of_a_file_that_does_not_exist_is_reported(workspace: MakeWorkspace) -> None:
    space = workspace(VITEPRESS)
    space.write("docs/guides/retries.md", PAGE)
    assert check(space).introduced == ()
    space.write("docs/guides/retries.md", PAGE.replace(b"theme/Chart.vue", b"theme/Gone.vue"))
    [finding] = check(space).introduced
    assert finding.line == 4
    assert finding.message == "The imported file `../.vitepress/theme/Gone.vue` does not exist."


def test_imports_follow_when_the_page_moves(workspace: MakeWorkspace) -> None:
    space = workspace({**VITEPRESS, "docs/guides/retries.md": PAGE})
    move_page(space, "docs/guides/retries.md", "docs/retries.md")
    text = space.read("docs/retries.md")
    for target in (
        b"'./.vitepress/theme/Chart.vue'",
        b"'./guides/limits'",
        b"'./parts/note.md'",
        b"'./guides/limits.ts'",
    ):
        assert target in text
    assert b"from 'vue'" in text
    assert b"'./old.vue'" in text
    assert b"'./example.vue'" in text
    assert check(space).introduced == ()


@pytest.mark.parametrize(
    ("old", "new", "target"),
    [
        ("docs/parts/note.md", "docs/guides/note.md", b"'./note.md'"),
        ("docs/.vitepress/theme/Chart.vue", "docs/parts/Chart.vue", b"'../parts/Chart.vue'"),
    ],
)
def test_import_follows_when_the_imported_file_moves(
    old: str, new: str, target: bytes, workspace: MakeWorkspace
) -> None:
    space = workspace({**VITEPRESS, "docs/guides/retries.md": PAGE})
    move_page(space, old, new)
    assert target in space.read("docs/guides/retries.md")
    assert check(space).introduced == ()


def test_scripts_mean_nothing_on_other_sites(workspace: MakeWorkspace) -> None:
    space = workspace({"mkdocs.yml": b"site_name: x\n", "docs/index.md": b"# Home\n"})
    space.write("docs/index.md", PAGE)
    assert check(space).introduced == ()
