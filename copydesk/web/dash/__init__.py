"""The dashboard: pages for people, on the same process as the API. Whoever looks is signed in; whatever changes is a
form that was posted from a page of ours."""

from fastapi import APIRouter

from copydesk.web.dash import (
    account,
    audit,
    entry,
    job,
    jobs,
    keys,
    oidc,
    people,
    projects,
    readership,
    review,
    settings,
    start,
    system,
)

router = APIRouter(include_in_schema=False)
for module in (
    entry,
    projects,
    keys,
    settings,
    start,
    jobs,
    job,
    review,
    account,
    audit,
    oidc,
    people,
    readership,
    system,
):
    router.include_router(module.router)
