"""python -m tests.browser.screenshots: takes the documentation's screenshots of a filled service."""

import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from copydesk.web.dashboard.auth.cookies import cookie_name
from tests.browser import chromium
from tests.support.filled_service import FILES, fill_service
from tests.support.people import get_or_add_person
from tests.support.repositories import make_repository
from tests.support.service import serve

TARGET = Path(__file__).parents[2] / "docs" / "images"
PAGES = {
    "readership": "/projects/{project}/readership",
    "jobs": "/projects/{project}/jobs",
    "job": "/projects/{project}/jobs/{job}",
    "keys": "/projects/{project}/keys",
    "queue": "/queue",
    "page": "/projects/{project}/readership/page?path=/",
    "agents": "/projects/{project}/readership/agents",
}


def main() -> None:
    program = chromium.find_chromium()
    if program is None:
        raise SystemExit(chromium.INSTALL_HINT)
    TARGET.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        folder = Path(name)
        repository = make_repository(folder / "lamplight.git", FILES)
        with serve(folder / "data", repository=repository) as service:
            service.desk.projects.change(service.project.id, {"name": "Lamplight"}, actor="admin@example.org")
            jobs = fill_service(service)
            secret = service.desk.people.sessions.create(
                get_or_add_person(service), "192.0.2.7", "Mozilla/5.0 Firefox/144.0"
            )
            browser = playwright.chromium.launch(executable_path=program, args=list(chromium.FLAGS))
            for theme in ("light", "dark"):
                context = browser.new_context(
                    color_scheme=theme,
                    viewport={"width": 1280, "height": 860},
                    timezone_id="UTC",
                    locale="en-GB",
                )
                cookie = {"name": cookie_name(service.desk.settings), "value": secret, "url": service.url}
                context.add_cookies([cookie])  # type: ignore[list-item]
                page = context.new_page()
                for picture, path in PAGES.items():
                    page.goto(service.url + path.format(project=service.project.id, job=jobs[0]))
                    page.screenshot(path=TARGET / f"{picture}-{theme}.png")
                    print(f"docs/images/{picture}-{theme}.png")  # noqa: T201
            browser.close()


if __name__ == "__main__":
    main()
