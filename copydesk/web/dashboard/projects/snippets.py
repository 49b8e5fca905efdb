"""Snippets to copy into a shell, a program or a page, with the service's URL and the project's ids."""

from dataclasses import dataclass

from copydesk.core.projects.projects import Project

BEACON_SNIPPET = '<script defer src="{url}/beacon.js" data-site="{site}"></script>'
EVENT_SNIPPET = """\
curl --fail-with-body {url}/v1/analytics/{project}/events \\
  --header "Authorization: Bearer $COPYDESK_API_KEY" \\
  --header 'Content-Type: application/json' \\
  --data '{{"path": "/guide.md", "userAgent": "ChatGPT-User/1.0", "ip": "192.0.2.7"}}'"""
JOB_SNIPPET = """\
curl --fail-with-body {url}/v2/agent/{project}/job \\
  --header "Authorization: Bearer $COPYDESK_API_KEY" \\
  --header 'Content-Type: application/json' \\
  --data '{{"prompt": "Replace colour with color on every page."}}'"""
PYTHON_SNIPPET = """\
import os

from copydesk_client import Client

desk = Client("{url}", os.environ["COPYDESK_API_KEY"], "{project}")
job = desk.create_job("Replace colour with color on every page.")
print(desk.wait(job["id"])["prLink"])
print(desk.visitors()["totals"])"""


@dataclass(frozen=True)
class Snippets:
    beacon: str
    event: str
    job: str
    python: str


def build_snippets(project: Project, base_url: str) -> Snippets:
    values = {"url": base_url, "project": project.id, "site": project.site_id}
    return Snippets(*(text.format(**values) for text in (BEACON_SNIPPET, EVENT_SNIPPET, JOB_SNIPPET, PYTHON_SNIPPET)))
