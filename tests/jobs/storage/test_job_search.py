"""Finding jobs of several projects: by state, by who asked, by words, in pages, on SQLite and PostgreSQL."""

from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import select

from copydesk.core.db.database import Database
from copydesk.core.projects.projects import Project, Projects
from copydesk.jobs.job import Creator, CreatorKind, Job, PullState, Reason, ReviewState, Status
from copydesk.jobs.service import Jobs, NewJob
from copydesk.jobs.storage.lookups.job_search import (
    JobFilter,
    StateCount,
    count_jobs_by_state,
    find_jobs,
    list_creators,
    load_opened_at,
)
from copydesk.jobs.storage.records import EventKind, NewEvent, archive_job, save_changed_files_in, update_job
from copydesk.jobs.storage.tables import jobs as jobs_table
from copydesk.jobs.workspace.patches import create_patch

ADA = Creator(kind=CreatorKind.PERSON, name="Ada", id="pers_" + "0" * 26)
ROBOT = Creator(kind=CreatorKind.AUTOMATION, name="Nightly", id="auto_" + "0" * 26)


class Desk:
    """Jobs of two projects on one database, without workers."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.jobs = Jobs(database, default_model="mechanic", per_hour=100_000)
        projects = Projects(database)
        self.first, self.second = (
            projects.create(name, repository="/docs", ref="main", actor="test") for name in ("First", "Second")
        )

    def add(self, prompt: str = "Do it", project: Project | None = None, creator: Creator | None = None) -> Job:
        return self.jobs.create(project or self.first, NewJob(prompt), created_by=creator).job

    def finish(self, job: Job, *, number: int | None = None, **values: Any) -> Job:
        """Ends a job; with a number, it has an open pull request."""
        pull = {"pr_link": f"https://forge.example/docs/pulls/{number}", "pull_state": "open"} if number else {}
        opened = [NewEvent(EventKind.PULL_REQUEST, {})] if number else []
        with self.database.write() as tx:
            update_job(self.database, tx, job.id, opened, **{"status": Status.COMPLETED, **pull, **values})
        return self.jobs.get(job.project_id, job.id)

    def archive(self, job: Job, state: PullState | None = None) -> None:
        with self.database.write() as tx:
            archive_job(self.database, tx, self.jobs.get(job.project_id, job.id), state)

    def change_file(self, job: Job, path: str) -> None:
        with self.database.write() as tx:
            save_changed_files_in(tx, job.id, [create_patch(path, b"a\n", b"b\n")])

    def find(self, limit: int = 50, cursor: str | None = None, **values: Any) -> list[str]:
        projects = values.pop("projects", [self.first, self.second])
        job_filter = JobFilter([project.id for project in projects], **values)
        return [job.id for job in find_jobs(self.database, job_filter, limit, cursor).jobs]

    def state_of(self, job: Job) -> ReviewState:
        return self.jobs.get(job.project_id, job.id).review_state


@pytest.fixture
def desk(migrated_url: str) -> Iterator[Desk]:
    database = Database(migrated_url)
    yield Desk(database)
    database.close()


def test_state_follows_the_job_through_its_life(desk: Desk) -> None:
    job = desk.add()
    assert desk.state_of(job) is ReviewState.RUNNING
    desk.finish(job, number=1)
    assert desk.state_of(job) is ReviewState.OPEN
    desk.jobs.add_message(desk.first, job.id, "More")
    assert desk.state_of(job) is ReviewState.RUNNING
    desk.finish(job, status=Status.FAILED, reason=Reason.TIMED_OUT)
    assert desk.state_of(job) is ReviewState.OPEN
    desk.archive(job)
    assert desk.state_of(job) is ReviewState.ARCHIVED
    desk.archive(job, "merged")
    assert desk.state_of(job) is ReviewState.MERGED
    desk.jobs.unarchive(desk.first.id, job.id, "open")
    assert desk.state_of(job) is ReviewState.OPEN


@pytest.mark.parametrize(
    ("values", "expected", "archived"),
    [
        ({"reason": Reason.NO_CHANGES}, ReviewState.UNCHANGED, ReviewState.UNCHANGED),
        ({"reason": Reason.QUESTION}, ReviewState.UNANSWERED, ReviewState.ARCHIVED),
        ({"reason": Reason.NOT_UNDERSTOOD}, ReviewState.UNANSWERED, ReviewState.ARCHIVED),
        ({"status": Status.FAILED, "reason": Reason.MODEL_ERROR}, ReviewState.FAILED, ReviewState.FAILED),
        ({"pull_state": "merged"}, ReviewState.MERGED, ReviewState.MERGED),
    ],
)
def test_state_of_a_job_without_a_pull_request(
    desk: Desk, values: dict[str, Any], expected: ReviewState, archived: ReviewState
) -> None:
    job = desk.finish(desk.add(), **values)
    assert job.review_state is expected
    desk.archive(job)
    assert desk.state_of(job) is archived


def test_filters_combine_and_never_leave_the_given_projects(desk: Desk) -> None:
    mine = desk.finish(desk.add(creator=ADA), number=1)
    automatic = desk.finish(desk.add(creator=ROBOT), number=2)
    elsewhere = desk.finish(desk.add(project=desk.second, creator=ADA), number=3)
    failed = desk.finish(desk.add(creator=ADA), status=Status.FAILED)
    assert desk.find() == [failed.id, elsewhere.id, automatic.id, mine.id]
    assert desk.find(state=ReviewState.OPEN) == [elsewhere.id, automatic.id, mine.id]
    assert desk.find(state=ReviewState.OPEN, projects=[desk.first]) == [automatic.id, mine.id]
    assert desk.find(creator_id=ADA.id) == [failed.id, elsewhere.id, mine.id]
    assert desk.find(creator_kind=CreatorKind.AUTOMATION) == [automatic.id]
    assert desk.find(creator_id=ADA.id, state=ReviewState.OPEN, projects=[desk.second]) == [elsewhere.id]
    assert desk.find(projects=[]) == []
    assert desk.find(projects=[desk.first], text=elsewhere.id) == []


def test_search_finds_ids_numbers_paths_and_words(desk: Desk) -> None:
    job = desk.finish(desk.add("Fix the Guide, 100% of it"), number=12)
    desk.change_file(job, "docs/Setup/install_it.md")
    other = desk.finish(desk.add("Something about 12 things"), number=112)
    assert desk.find(text=job.id) == [job.id]
    assert desk.find(text="#12") == desk.find(text="!12") == [job.id]
    assert desk.find(text="12") == [other.id, job.id]
    assert desk.find(text="setup/INSTALL_") == [job.id]
    assert desk.find(text="the guide") == desk.find(text="100%") == [job.id]
    assert desk.find(text="installXit") == desk.find(text="%")[1:] == []


def test_pages_follow_each_other_without_gaps(desk: Desk) -> None:
    made = [desk.add(f"Number {number}").id for number in range(7)][::-1]
    listed: list[str] = []
    cursor: str | None = None
    while True:
        page = find_jobs(desk.database, JobFilter([desk.first.id]), 3, cursor)
        listed += [job.id for job in page.jobs]
        cursor = page.next_cursor
        if cursor is None:
            break
    assert listed == made


def test_search_continues_where_a_page_stopped_reading(desk: Desk) -> None:
    wanted = desk.add("The needle")
    for _ in range(4):
        desk.add("Hay")
    job_filter = JobFilter([desk.first.id], text="needle")
    first = find_jobs(desk.database, job_filter, 2, None, max_searched=3)
    assert (first.jobs, first.has_unsearched) == ([], True)
    second = find_jobs(desk.database, job_filter, 2, first.next_cursor, max_searched=3)
    assert [job.id for job in second.jobs] == [wanted.id]
    assert (second.has_unsearched, second.next_cursor) == (False, None)
    assert count_jobs_by_state(desk.database, JobFilter([desk.first.id], text="Hay"), max_searched=3) == {
        ReviewState.RUNNING: StateCount(3, is_minimum=True)
    }


def test_totals_ignore_the_chosen_state_and_respect_the_other_filters(desk: Desk) -> None:
    desk.finish(desk.add("Fix the guide", creator=ADA), number=1)
    desk.finish(desk.add("Fix the guide"), number=2)
    desk.archive(desk.finish(desk.add("Other", creator=ADA), number=3), "closed")
    desk.add("Fix the guide", project=desk.second)

    def count(**values: Any) -> dict[str, int]:
        counts = count_jobs_by_state(desk.database, JobFilter([desk.first.id], **values))
        assert not any(each.is_minimum for each in counts.values())
        return {state.value: each.total for state, each in counts.items()}

    assert count() == count(state=ReviewState.MERGED) == {"open": 2, "closed": 1}
    assert count(creator_id=ADA.id) == count(creator_kind=CreatorKind.PERSON) == {"open": 1, "closed": 1}
    assert count(text="guide") == {"open": 2}


def test_total_of_a_large_state_is_a_minimum(desk: Desk) -> None:
    for _ in range(3):
        desk.add()
    assert count_jobs_by_state(desk.database, JobFilter([desk.first.id]), max_counted=2) == {
        ReviewState.RUNNING: StateCount(2, is_minimum=True)
    }


def test_creators_are_listed_once_with_their_newest_name(desk: Desk) -> None:
    for creator in (ADA, ROBOT, ADA, Creator(kind=CreatorKind.KEY, name="old key")):
        desk.add(creator=creator)
    renamed = ADA.model_copy(update={"name": "Zoe"})
    desk.add(creator=renamed)
    desk.add(project=desk.second, creator=Creator(kind=CreatorKind.KEY, name="b", id="key_" + "0" * 26))
    assert list_creators(desk.database, [desk.first.id]) == [ROBOT, renamed]


def test_age_counts_from_the_first_time_that_the_pull_request_was_opened(desk: Desk) -> None:
    job = desk.finish(desk.add(), number=1)
    [first] = load_opened_at(desk.database, [job.id]).values()
    with desk.database.write() as tx:
        update_job(desk.database, tx, job.id, [NewEvent(EventKind.PULL_REQUEST, {})])
    assert load_opened_at(desk.database, [job.id, desk.add().id]) == {job.id: first}


def test_columns_for_the_queue_are_stored_with_the_job(desk: Desk) -> None:
    job = desk.add(creator=ADA)
    columns = (jobs_table.c.review_state, jobs_table.c.creator_kind, jobs_table.c.creator_id)
    with desk.database.read() as tx:
        assert tuple(tx.execute(select(*columns).where(jobs_table.c.id == job.id)).one()) == (
            "running",
            "person",
            ADA.id,
        )
