"""Idempotency keys: each project has its own."""

from pathlib import Path

from copydesk.core.db.database import Database
from copydesk.core.projects.projects import Projects
from copydesk.jobs.storage.idempotency_keys import claim_idempotency_key, find_idempotent_result
from tests.support import migrated_databases


def test_projects_do_not_share_keys(tmp_path: Path) -> None:
    database = Database(migrated_databases.new_database("sqlite", tmp_path))
    projects = Projects(database)
    first, second, other = (
        projects.create(name, repository="/srv/docs.git", ref="main", actor="ada").id for name in "abc"
    )
    with database.write() as tx:
        for project in (second, first):
            assert claim_idempotency_key(tx, project, "key", "digest", f"job of {project[-30:]}") is None
        for project in (first, second):
            assert claim_idempotency_key(tx, project, "key", "digest", "another job") == f"job of {project[-30:]}"
        assert find_idempotent_result(tx, other, "key", "digest") is None
    database.close()
