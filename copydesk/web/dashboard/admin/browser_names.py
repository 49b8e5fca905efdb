"""Names of browsers, so that people recognize their sessions. They are only hints: clients can send any user agent."""

BROWSERS = (
    ("Edg", "Edge"),
    ("OPR/", "Opera"),
    ("Vivaldi/", "Vivaldi"),
    ("SamsungBrowser/", "Samsung Internet"),
    ("Firefox/", "Firefox"),
    ("FxiOS/", "Firefox"),
    ("CriOS/", "Chrome"),
    ("Chromium/", "Chromium"),
    ("Chrome/", "Chrome"),
    ("Safari/", "Safari"),
    ("curl/", "curl"),
)
OPERATING_SYSTEMS = (
    ("iPhone", "iPhone"),
    ("iPad", "iPad"),
    ("Android", "Android"),
    ("Windows", "Windows"),
    ("Macintosh", "macOS"),
    ("CrOS", "ChromeOS"),
    ("Linux", "Linux"),
)
"""Searched in order: a browser whose user agent also contains the mark of another one comes first."""


def describe_browser(user_agent: str) -> str:
    browser = next((name for mark, name in BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in OPERATING_SYSTEMS if mark in user_agent), "")
    return " on ".join(part for part in (browser, system) if part) or user_agent[:60] or "Unknown browser"
