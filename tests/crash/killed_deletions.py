"""Deletes a project in processes that kill themselves, each at another moment, and prints what the next process finds.

Arguments: a data folder, the project's ID, and the moments, as numbers of statements, commits and deleted folders. Each
process works on a copy of the folder. Prints a line of JSON for each.
"""

import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

from sqlalchemy import event, func, select, table

import copydesk.analytics.stores.shared.server
import copydesk.jobs.publish.git.mirror
import copydesk.jobs.workflow.maintenance  # noqa: F401 - imported once, before the processes are forked
from copydesk.core.errors import ProjectNotFound
from copydesk.core.settings import read_settings
from copydesk.desk import Desk, open_desk_lazily
from copydesk.jobs.workflow.maintenance import delete_orphaned_mirrors

WATCHED_EVENTS = ("shutil.rmtree", "os.rmdir", "os.remove")
COUNTED_TABLES = ("jobs", "runs", "steps", "events", "messages", "pulls", "keys", "secrets", "feedback")


def open_copy(data: Path) -> Desk:
    return open_desk_lazily(read_settings(data=data, database_url="", analytics_url=""), create=False)


def delete_and_die(data: Path, project_id: str, moment: int) -> None:
    """Deletes the project, and kills this process at the moment."""
    desk = open_copy(data)
    project = desk.projects.get(project_id)
    moments_passed = 0

    def pass_moment(*_: Any) -> None:
        nonlocal moments_passed
        if moments_passed == moment:
            os.kill(os.getpid(), signal.SIGKILL)
        moments_passed += 1

    event.listen(desk.database.engine, "before_cursor_execute", pass_moment)
    event.listen(desk.database.engine, "commit", pass_moment)
    sys.addaudithook(lambda name, _: pass_moment() if name in WATCHED_EVENTS else None)
    desk.delete_project(project, actor="test")


def inspect(data: Path, project_id: str) -> dict[str, Any]:
    """Reports whether the project is complete or gone, deletes it again if it is there, and runs the maintenance."""
    desk = open_copy(data)
    try:
        project = desk.projects.get(project_id)
    except ProjectNotFound:
        project = None
    before = count_rows(desk)
    if project is not None:
        desk.delete_project(project, actor="test")
    desk.purge_deleted_projects()
    delete_orphaned_mirrors(desk.database, desk.settings)
    desk.store.fold()
    views = desk.store.count_views_by_page(project_id).totals.total
    after = count_rows(desk)
    mirrors = sorted(path.name for path in desk.settings.mirrors_folder.iterdir())
    desk.close()
    return {"existed": project is not None, "before": before, "after": after, "views": views, "mirrors": mirrors}


def count_rows(desk: Desk) -> dict[str, int]:
    with desk.database.read() as tx:
        return {name: tx.execute(select(func.count()).select_from(table(name))).scalar_one() for name in COUNTED_TABLES}


def main() -> None:
    source, project_id, *moments = sys.argv[1:]
    for moment in map(int, moments):
        data = Path(f"{source}-{moment}")
        shutil.copytree(source, data)
        if (child := os.fork()) == 0:
            delete_and_die(data, project_id, moment)
            os._exit(0)
        was_killed = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        if (child := os.fork()) == 0:
            report = {"moment": moment, "killed": was_killed, **inspect(data, project_id)}
            sys.stdout.write(f"{json.dumps(report)}\n")
            sys.stdout.flush()
            os._exit(0)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) != 0:
            sys.exit(f"The process that inspects moment {moment} failed.")
        shutil.rmtree(data)


if __name__ == "__main__":
    main()
