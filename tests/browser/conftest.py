"""A real Chromium, and a site for it to visit."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.browser import chromium
from tests.browser.site import BeaconSite, serve_beacon_site
from tests.support.programs import require_node, skip_missing

expect.set_options(timeout=60_000)


@pytest.fixture(scope="module")
def program() -> str:
    program = chromium.find_chromium()
    if program is None:
        skip_missing("chromium", chromium.INSTALL_HINT)
    require_node()  # Playwright runs on it
    return program


@pytest.fixture(scope="module")
def served() -> Iterator[BeaconSite]:
    with serve_beacon_site() as site:
        yield site


@pytest.fixture(scope="module")
def browser(program: str, served: BeaconSite) -> Iterator[Browser]:
    """Starts one browser per file: Playwright runs an event loop in its thread, which would disturb other tests."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(
            executable_path=program,
            args=[*chromium.FLAGS, host_resolver_rules(served)],
            ignore_default_args=["--disable-back-forward-cache"],
        )
        yield started
        started.close()


@pytest.fixture
def site(served: BeaconSite) -> BeaconSite:
    vars(served).update(vars(BeaconSite(port=served.port)))
    return served


@pytest.fixture
def page(browser: Browser, site: BeaconSite) -> Iterator[Page]:
    """Opens a new tab; an error in its scripts fails the test."""
    with browser.new_context() as context:
        tab = context.new_page()
        faults: list[str] = []
        tab.on("pageerror", lambda error: faults.append(str(error)))
        yield tab
        assert faults == []


def host_resolver_rules(site: BeaconSite) -> str:
    return f"--host-resolver-rules=MAP *.example.org 127.0.0.1:{site.port}"
