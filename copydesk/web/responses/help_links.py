"""The chapter of the guide that explains each page of the dashboard."""

GUIDE_PATH = "/docs/guide"
HELP_CHAPTERS = {
    "account.html": "dashboard#people-and-roles",
    "audit.html": "dashboard#audit-log-and-system-page",
    "automation-delete.html": "dashboard#automations",
    "automation-form.html": "automations#kinds",
    "automation.html": "automations#triggers",
    "automations.html": "dashboard#automations",
    "change-role.html": "dashboard#people-and-roles",
    "context.html": "agent#context-repositories",
    "forgot-password.html": "dashboard#people-and-roles",
    "job.html": "dashboard#jobs",
    "jobs.html": "dashboard#jobs",
    "join.html": "dashboard#the-first-administrator",
    "key-made.html": "dashboard#api-keys",
    "key-revoke.html": "dashboard#api-keys",
    "keys.html": "dashboard#api-keys",
    "people.html": "dashboard#people-and-roles",
    "project-delete.html": "dashboard#projects",
    "project-new.html": "forges#credentials-and-webhooks",
    "project-repository.html": "forges",
    "projects.html": "dashboard#projects",
    "pull.html": "agent#the-pull-request",
    "readership-agents.html": "ai-traffic",
    "readership-feedback.html": "analytics#feedback",
    "readership-history.html": "history",
    "readership-missing.html": "analytics#missing-pages",
    "readership-page.html": "analytics#one-page",
    "readership-questions.html": "analytics#questions",
    "readership-searches.html": "analytics#searches",
    "readership-sections.html": "analytics#sections",
    "readership-sources.html": "analytics#referrers",
    "readership.html": "dashboard#analytics",
    "reference.html": "api",
    "remove-person.html": "dashboard#people-and-roles",
    "settings.html": "settings",
    "share-made.html": "sharing#links",
    "sharing.html": "sharing",
    "sign-in.html": "dashboard#the-first-administrator",
    "start.html": "collect",
    "summary.html": "mail#weekly-summary",
    "system.html": "dashboard#audit-log-and-system-page",
    "webhook.html": "forges#credentials-and-webhooks",
}
"""By the name of the template. Other pages link to the table of contents."""


def find_help_url(template: str) -> str:
    chapter = HELP_CHAPTERS.get(template)
    return f"{GUIDE_PATH}/{chapter}" if chapter else GUIDE_PATH
