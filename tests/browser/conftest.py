"""A real Chromium, and a site for it to visit."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser import chromium
from tests.browser.site import Site, serve
from tests.support.programs import require_node, skip_missing

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def program() -> str:
    program = chromium.find()
    if program is None:
        skip_missing("chromium", chromium.MISSING)
    require_node()  # Playwright runs on it
    return program


@pytest.fixture(scope="module")
def served() -> Iterator[Site]:
    with serve() as site:
        yield site


@pytest.fixture(scope="module")
def browser(program: str, served: Site) -> Iterator[Browser]:
    """Starts one browser per file: Playwright runs an event loop in its thread, which would disturb other tests."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program,
            args=[*chromium.FLAGS, names(served)],
            ignore_default_args=["--disable-back-forward-cache"],
        )
        yield started
        started.close()


@pytest.fixture
def site(served: Site) -> Site:
    vars(served).update(vars(Site(port=served.port)))
    return served


@pytest.fixture
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """Opens a new tab; an error in its scripts fails the test."""
    with browser.new_context() as context:
        tab = context.new_page()
        faults: list[str] = []
        tab.on("pageerror", lambda error: faults.append(str(error)))
        yield tab
        assert faults == []


def names(site: Site) -> str:
    return f"--host-resolver-rules=MAP *.example.org 127.0.0.1:{site.port}"
