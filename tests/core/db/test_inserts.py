"""The first writer of a row wins, on both databases."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import select
from sqlalchemy.exc import IntegrityError

from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.db.tables import secrets
from copydesk.core.projects.projects import Project
from copydesk.desk import Desk


def new_row(project: Project, sealed: bytes) -> dict[str, object]:
    return {"project_id": project.id, "name": "visitor_key", "sealed": sealed, "updated_at": 1}


def test_second_row_with_the_same_key_is_not_inserted(desk: Desk, project: Project) -> None:
    with desk.database.write() as tx:
        assert insert_if_absent(tx, secrets, new_row(project, b"\0first"))
        assert not insert_if_absent(tx, secrets, new_row(project, b"second"))
        assert insert_if_absent(tx, secrets, {**new_row(project, b"other"), "name": "forge_token"})
        rows = tx.execute(select(secrets.c.name, secrets.c.sealed).order_by(secrets.c.name)).all()
    assert [(name, bytes(sealed)) for name, sealed in rows] == [("forge_token", b"other"), ("visitor_key", b"\0first")]


def test_one_of_several_concurrent_writers_inserts(desk: Desk, project: Project) -> None:
    together = Barrier(4)

    def insert(number: int) -> bool:
        together.wait()
        with desk.database.write() as tx:
            return insert_if_absent(tx, secrets, new_row(project, b"%d" % number))

    with ThreadPoolExecutor(4) as pool:
        inserted = list(pool.map(insert, range(4)))
    assert sorted(inserted) == [False, False, False, True]
    with desk.database.read() as tx:
        assert bytes(tx.execute(select(secrets.c.sealed)).scalar_one()) == b"%d" % inserted.index(True)


def test_other_violations_are_errors(desk: Desk, project: Project) -> None:
    with pytest.raises(IntegrityError), desk.database.write() as tx:
        insert_if_absent(tx, secrets, {**new_row(project, b""), "project_id": "prj_unknown"})
