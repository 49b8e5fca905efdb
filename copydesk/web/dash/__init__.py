"""The dashboard: pages for people, on the same process as the API. Whoever looks is signed in; whatever changes is a
form that was posted from a page of ours."""

from fastapi import APIRouter

from copydesk.web.dash import entry

router = APIRouter(include_in_schema=False)
for module in (entry,):
    router.include_router(module.router)
