"""libgit2 reads only a repository's own configuration, and every repository is opened in the one place that says so."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import copydesk
from tests.support.repositories import make_repository

PACKAGE = Path(copydesk.__file__).parent
HOME = PACKAGE / "jobs/workspace/git_repository.py"
READ_SETTING = """
import sys
from copydesk.jobs.workspace import git_tree
{open_repository}
print("copydesk.seen" in repository.config)
"""


def read_user_setting(open_repository: str, repository: Path, home: Path) -> str:
    (home / ".gitconfig").write_text("[copydesk]\n\tseen = yes\n")
    environment = {**os.environ, "HOME": str(home), "XDG_CONFIG_HOME": str(home)}
    command = [sys.executable, "-c", READ_SETTING.format(open_repository=open_repository), str(repository)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


@pytest.mark.deep
@pytest.mark.parametrize(
    ("open_repository", "is_seen"),
    [
        ("import pygit2; repository = pygit2.Repository(sys.argv[1])", "True\n"),
        ("from {place} import open_repository; repository = open_repository(sys.argv[1])", "False\n"),
        ("from {place} import create_bare_repository as new; repository = new(sys.argv[1] + '.new')", "False\n"),
    ],
    ids=["plain", "open", "create"],
)
def test_settings_of_the_user_are_ignored(tmp_path: Path, open_repository: str, is_seen: str) -> None:
    repository = make_repository(tmp_path / "docs.git", {"index.md": b"# Home\n"})
    open_repository = open_repository.format(place="copydesk.jobs.workspace.git_repository")
    assert read_user_setting(open_repository, repository, tmp_path) == is_seen


def test_every_repository_is_opened_in_one_place() -> None:
    openers = [
        str(file.relative_to(PACKAGE))
        for file in PACKAGE.rglob("*.py")
        if file != HOME and any(call in file.read_text("utf-8") for call in ("pygit2.Repository(", "init_repository("))
    ]
    assert openers == []
