"""The kind of a referring host."""

import pytest

from copydesk.analytics.page_paths import host_from_url
from copydesk.analytics.stores.names.referrer_sources import Source, SourceKind, find_source, find_source_kind


@pytest.mark.parametrize(
    ("host", "kind"),
    [
        ("google.com", SourceKind.SEARCH),
        ("google.co.uk", SourceKind.SEARCH),
        ("mail.google.com", SourceKind.SITE),
        ("gemini.google.com", SourceKind.AI),
        ("cn.bing.com", SourceKind.SEARCH),
        ("edgeservices.bing.com", SourceKind.AI),
        ("chat.openai.com", SourceKind.AI),
        ("old.reddit.com", SourceKind.SOCIAL),
        ("notreddit.com", SourceKind.SITE),
        ("com.google.android.googlequicksearchbox", SourceKind.SEARCH),
        ("com", SourceKind.SITE),
    ],
)
def test_longest_domain_in_the_table_decides(host: str, kind: SourceKind) -> None:
    assert find_source_kind(host) is kind


def test_a_page_of_the_same_host_is_no_source() -> None:
    assert find_source("docs.example.com", "www.docs.example.com") is None
    assert find_source("docs.example.com", "example.com") == Source(SourceKind.SITE, "example.com")
    assert find_source("", "example.com") == Source(SourceKind.SITE, "example.com")
    assert find_source("docs.example.com", "") == Source(SourceKind.DIRECT, "")


def test_app_that_links_to_a_page_is_a_host() -> None:
    assert host_from_url("android-app://com.slack/") == "com.slack"
