"""Jobs as values, for tests that need no database."""

from typing import Any

from copydesk.jobs.job import ACTIVE, Job, Phase, Usage


def make_job(**values: Any) -> Job:
    plain: dict[str, Any] = {
        "id": "job_1",
        "project_id": "proj_1",
        "status": ACTIVE,
        "phase": Phase.QUEUED,
        "prompt": "Do it",
        "repository": "https://example.org/docs.git",
        "ref": "main",
        "model": "mechanic",
        "draft": False,
        "branch": "copydesk/job_1",
        "usage": Usage(),
        "checks": [],
        "risk": [],
        "last_event": 1,
        "created_at": 1,
        "updated_at": 1,
    }
    none = dict.fromkeys(field for field in Job.__dataclass_fields__ if field not in plain)
    return Job(**{**none, **plain, **values})
