"""A browser in plain words, as its owner would name it. Only a help for the memory: anybody can claim anything."""

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
"""Those that pretend to be others come before them."""


def describe_browser(user_agent: str) -> str:
    browser = next((name for mark, name in BROWSERS if mark in user_agent), "")
    system = next((name for mark, name in OPERATING_SYSTEMS if mark in user_agent), "")
    return " on ".join(part for part in (browser, system) if part) or user_agent[:60] or "An unknown browser"
