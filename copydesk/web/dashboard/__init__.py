"""The dashboard: HTML pages, served by the same process as the API.

Every page needs a session. Every change is a form that was posted from one of these pages.
"""

from fastapi import APIRouter

from copydesk.web.dashboard.admin import account, audit_log, people, project_access, system
from copydesk.web.dashboard.auth import oidc, password_reset, sign_in
from copydesk.web.dashboard.automations import automation_pages, definition_form
from copydesk.web.dashboard.guide import routes as guide
from copydesk.web.dashboard.jobs import detail, job_list, review, review_queue
from copydesk.web.dashboard.projects import (
    api_keys,
    context_repositories,
    deletion,
    onboarding,
    project_list,
    repository,
    settings,
)
from copydesk.web.dashboard.prompts import template_form, template_pages
from copydesk.web.dashboard.readership import audience, downloads, history
from copydesk.web.dashboard.readership import pages as readership_pages
from copydesk.web.dashboard.readership.lists import interactions as interaction_pages
from copydesk.web.dashboard.readership.lists import missing_pages, stale_pages
from copydesk.web.dashboard.readership.page_detail import routes as page_detail
from copydesk.web.dashboard.sharing import share_links, weekly_summary
from copydesk.web.dashboard.webhooks import endpoint_pages as webhook_pages

router = APIRouter(include_in_schema=False)
for module in (
    sign_in,
    password_reset,
    project_list,
    api_keys,
    settings,
    deletion,
    repository,
    context_repositories,
    onboarding,
    job_list,
    detail,
    review,
    template_form,
    template_pages,
    review_queue,
    definition_form,
    automation_pages,
    account,
    audit_log,
    oidc,
    people,
    project_access,
    interaction_pages,
    readership_pages,
    missing_pages,
    stale_pages,
    page_detail,
    audience,
    downloads,
    history,
    share_links,
    weekly_summary,
    webhook_pages,
    system,
    guide,
):
    router.include_router(module.router)
