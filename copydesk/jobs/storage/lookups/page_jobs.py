"""Lists the jobs about one page of the site, and the files that open pull requests add."""

from typing import NamedTuple

from sqlalchemy import ColumnElement, and_, false, func, literal, or_, select

from copydesk.core.db.database import Database
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.jobs.job import Status
from copydesk.jobs.storage.tables import job_files, jobs

MAX_TITLE_CHARS = 120
MAX_PLANNED_FILES = 5_000
DELIMITERS = "\n\r\t\"'`“”()<>,;:"
"""Characters around a path in a prompt, besides blanks. A period may follow it, too."""


class PageJob(NamedTuple):
    id: str
    status: Status
    pr_link: str | None
    created_at: int
    title: str
    """The title of the change, or else the beginning of the prompt; one line."""


def list_page_jobs(
    database: Database, project_id: str, address: str, source_path: str | None, limit: int
) -> list[PageJob]:
    """Returns the jobs that changed the page's file, or whose prompt names its address or file, newest first."""
    names = [name for name in (address, source_path) if name and name != "/"]
    is_about_page = or_(false(), *(_prompt_names(name) for name in names))
    if source_path is not None:
        same_file = or_(job_files.c.path == source_path, job_files.c.previous == source_path)
        has_changed_file = select(job_files.c.job_id).where(job_files.c.job_id == jobs.c.id, same_file).exists()
        is_about_page = or_(is_about_page, has_changed_file)
    query = (
        select(jobs.c.id, jobs.c.status, jobs.c.pr_link, jobs.c.created_at, jobs.c.title, jobs.c.prompt)
        .where(jobs.c.project_id == project_id, is_about_page)
        .order_by(jobs.c.id.desc())
        .limit(limit)
    )
    with database.read() as tx:
        rows = tx.execute(query).all()
    return [
        PageJob(row.id, Status(row.status), row.pr_link, row.created_at, _shorten(row.title or row.prompt))
        for row in rows
    ]


def list_planned_paths(database: Database, project_id: str, besides_job: str) -> list[str]:
    """Returns the files that open pull requests of other jobs of the project add, or move there, newest jobs first."""
    is_open = (jobs.c.project_id == project_id) & (jobs.c.pull_state == "open") & (jobs.c.id != besides_job)
    query = (
        select(job_files.c.path)
        .join(jobs, jobs.c.id == job_files.c.job_id)
        .where(is_open, job_files.c.change.in_(("added", "renamed")))
        .order_by(jobs.c.id.desc(), job_files.c.path)
        .limit(MAX_PLANNED_FILES)
    )
    with database.read() as tx:
        return list(tx.execute(query).scalars())


def _prompt_names(name: str) -> ColumnElement[bool]:
    """Returns the condition that a prompt has this name as a word: `/guide` is not in `/guides` or `/guide/start`."""
    words: ColumnElement[str] = jobs.c.prompt
    for delimiter in DELIMITERS:
        words = func.replace(words, delimiter, " ")
        name = name.replace(delimiter, " ")
    words = literal(" ") + words + literal(" ")
    is_word = or_(*(words.contains(f" {name}{end} ", autoescape=True) for end in ("", ".")))
    return and_(jobs.c.prompt.contains(name, autoescape=True), is_word) if " " not in name else is_word


def _shorten(text: str) -> str:
    return truncate(to_single_line(text), MAX_TITLE_CHARS)
