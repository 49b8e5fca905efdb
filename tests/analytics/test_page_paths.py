"""Every spelling of an address gives the same page path."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from copydesk.analytics.page_paths import (
    MAX_PATH_BYTES,
    NOT_A_PAGE,
    PageFormat,
    PageLocation,
    host_from_url,
    normalize_url,
)
from copydesk.analytics.page_view import Dropped, DropReason


def clean_path(url: str, base: str = "", keep: frozenset[str] = frozenset()) -> str:
    place = normalize_url(url, base, keep)
    assert isinstance(place, PageLocation), place
    return place.path


def find_drop_reason(url: str, base: str = "") -> DropReason:
    dropped = normalize_url(url, base)
    assert isinstance(dropped, Dropped), dropped
    return dropped.reason


@pytest.mark.parametrize(
    "written",
    [
        "/guide/setup",
        "/guide/setup/",
        "//guide///setup",
        "/guide/./setup",
        "/guide/x/../setup",
        "/guide/%2e/setup",
        "/../guide/setup",
        "guide/setup",
        "/guide/setup/index.html",
        "/guide/setup/INDEX.HTML",
        "/guide/setup.md",
        "/guide/setup/index.md",
        "/guide/setup.md.md",
        "/g%75ide/setup",
        "/guide/setup?utm_source=x",
        "/guide/setup#part",
        "/guide/setup#a?b",
        "https://docs.example.com/guide/setup?x=1#y",
        "HTTP://user:secret@DOCS.example.com:8443/guide/setup",
    ],
)
def test_all_spellings_of_a_page_have_one_path(written: str) -> None:
    assert clean_path(written) == "/guide/setup"


@pytest.mark.parametrize(
    ("written", "path"),
    [
        ("https://example.com", "/"),
        ("https://example.com?x=1", "/"),
        ("/index.html", "/"),
        ("/index.html.md", "/"),
        ("/install.html", "/install.html"),
        ("/install.html.md", "/install.html"),
        ("/v1.2", "/v1.2"),
        ("/v1.2/", "/v1.2"),
        ("/caf%C3%A9", "/café"),
        ("/cafe\u0301", "/café"),
        ("/%E6%97%A5%E6%9C%AC", "/日本"),
        ("/a%20b", "/a b"),
        ("/a%2Fb", "/a%2Fb"),
        ("/a%2fb", "/a%2Fb"),
        ("/100%25", "/100%25"),
        ("/100%", "/100%25"),
        ("/%2541", "/%2541"),
        ("/a%3Fb", "/a%3Fb"),
        ("/a+b", "/a+b"),
        ("/.md", "/.md"),
        ("/data.json.md", "/data.json.md"),
        ("/docs/llms.txt", "/docs/llms.txt"),
    ],
)
def test_path_is_percent_decoded_where_unambiguous(written: str, path: str) -> None:
    assert clean_path(written) == path


def test_host_is_separated_from_the_path() -> None:
    assert normalize_url("https://Docs.Example.com.:8443/a") == PageLocation("docs.example.com", "/a", PageFormat.HTML)
    assert normalize_url("https://[2001:db8::1]:80/a") == PageLocation("[2001:db8::1]", "/a", PageFormat.HTML)
    assert normalize_url("/a") == PageLocation("", "/a", PageFormat.HTML)
    assert host_from_url("https://news.example.com/item?id=7") == "news.example.com"
    assert host_from_url("about:blank") == ""


def test_form_follows_from_the_file_extension() -> None:
    forms = {url: normalize_url(url) for url in ("/a.md", "/a", "/llms.txt", "/x/llms-full.txt", "/a/index.md")}
    assert [place.format for place in forms.values() if isinstance(place, PageLocation)] == [
        "markdown",
        "html",
        "llms",
        "llms",
        "markdown",
    ]


@pytest.mark.parametrize(
    "url",
    [
        *("/app.js", "/a/style.CSS", "/logo.svg", "/x.pdf", "/data.json", "/favicon.ico"),
        *("/robots.txt", "/sitemap.xml", "/feed.rss", "/.well-known/security", "/cdn-cgi/trace"),
        *("/_next/image?url=a", "/a?_rsc=1x2y"),
        *("/model.gltf", "/notebook.ipynb", "/table.parquet", "/app.wasm", "/x.7z", "/clip.3gp", "/PHOTO.HEIC"),
        *("/a/b.lottie", "/.env", "/backup.sql", "/schema.graphql", "/openapi.yaml", "/id.asc", "/setup.sh"),
        *("/data.geojson", "/v1.2.zip", "/app-2.0.dmg", "/archive.tar.zst", "/key.pem", "/release.mobileconfig"),
    ],
)
def test_asset_paths_are_refused(url: str) -> None:
    assert find_drop_reason(url) is DropReason.NOT_A_PAGE


@pytest.mark.parametrize(
    "url",
    [
        *(
            "/guide",
            "/guide.html",
            "/a.htm",
            "/a.xhtml",
            "/index.php/x",
            "/page.php",
            "/page.aspx",
            "/page.jsp",
            "/a.cfm",
        ),
        *("/v1.2", "/docs/10.x", "/2.0.0-rc1", "/release-1.4.beta", "/3.12", "/notes/v2.x", "/2026.11", "/1.0.dev3"),
        *(
            "/integrations/monday.com",
            "/vs/socket.io",
            "/api/System.String",
            "/api/Newtonsoft.Json",
            "/a.",
            "/node-v20",
        ),
    ],
)
def test_pages_have_a_known_extension_or_none(url: str) -> None:
    assert clean_path(url)


def test_folder_named_like_a_file_is_a_page_and_keeps_its_slash() -> None:
    for path in ("/integrations/node.js/", "/wrap.backup/"):
        location = normalize_url(f"{path}?x=1")
        assert isinstance(location, PageLocation)
        assert location.path == path
        assert normalize_url(path.rstrip("/")) == NOT_A_PAGE
    assert normalize_url("/_next/a.js/") == NOT_A_PAGE


@pytest.mark.parametrize("url", ["/a%00b", "/a\nb", "/%ff%fe", "/a%C0%AF", "/\ud800", "/a%7f", "/%C2%85"])
def test_a_binary_path_is_refused(url: str) -> None:
    assert find_drop_reason(url) is DropReason.PATH_NOT_TEXT


@pytest.mark.parametrize("url", ["file:///etc/passwd", "about:blank", "chrome-extension://abc/x", "javascript:void(0)"])
def test_non_http_url_is_refused(url: str) -> None:
    assert find_drop_reason(url) is DropReason.NOT_HTTP


def test_path_longer_than_the_limit_is_refused() -> None:
    assert clean_path("/" + "a" * (MAX_PATH_BYTES - 1))
    assert find_drop_reason("/" + "a" * MAX_PATH_BYTES) is DropReason.PATH_TOO_LONG
    assert find_drop_reason("/" + "%41" * 5000) is DropReason.PATH_TOO_LONG
    assert find_drop_reason("/" + "é" * 1500) is DropReason.PATH_TOO_LONG
    assert find_drop_reason("") is DropReason.NO_PATH


def test_base_path_is_removed_and_other_paths_are_refused() -> None:
    assert clean_path("/docs/guide", "/docs") == "/guide"
    assert clean_path("/docs/", "/docs/") == "/"
    assert clean_path("/docs/index.html", "docs") == "/"
    assert find_drop_reason("/documents/guide", "/docs") is DropReason.OUTSIDE_BASE
    assert find_drop_reason("/", "/docs") is DropReason.OUTSIDE_BASE


def test_named_query_parameters_are_kept_in_one_order() -> None:
    keep = frozenset({"lang", "v"})
    assert clean_path("/a?v=2&utm=x&lang=de", "", keep) == clean_path("/a/?lang=de&v=2", "", keep) == "/a?lang=de&v=2"
    assert clean_path("/a?v=1+1&v=a%26b", "", keep) == "/a?v=1 1&v=a%26b"
    assert clean_path("/a?utm=x", "", keep) == "/a"
    assert clean_path("/a?v", "", keep) == "/a?v="


URLS = st.one_of(
    st.text(),
    st.text(alphabet="/.%?#&=:aA2eF\\ indexhtml md", max_size=60),
    st.lists(
        st.sampled_from(["/", "..", ".", "%2e", "%25", "%", "a", "index.html", ".md", "%C3%A9", "\u0301", "_next"])
    ).map("".join),
)


@pytest.mark.deep
@given(URLS, st.frozensets(st.sampled_from(["a", "m", "é"])))
@example("/..md", frozenset())
@example("/...md/index.html", frozenset())
@example("/a.json/index.html", frozenset())
@example("/?a=\u0338", frozenset({"a"}))
def test_cleaning_never_raises_and_is_idempotent(url: str, keep: frozenset[str]) -> None:
    once = normalize_url(url, "", keep)
    if isinstance(once, PageLocation):
        again = normalize_url(once.path, "", keep)
        assert isinstance(again, PageLocation)
        assert again.path == once.path
        assert once.path.startswith("/")
        assert once.path.isprintable() or not once.path.isascii()


@pytest.mark.deep
@given(URLS)
def test_host_of_any_text_is_at_most_253_characters(url: str) -> None:
    assert len(host_from_url(url)) <= 253
