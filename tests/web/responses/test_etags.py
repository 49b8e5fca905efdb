"""ETags in requests, as browsers and proxies send them."""

import pytest

from copydesk.web.responses.etags import etag_matches


@pytest.mark.parametrize("known", ['"a"', 'W/"a"', '"b", "a"', '"b",W/"a"', "*", " * "])
def test_known_etag_matches(known: str) -> None:
    assert etag_matches('"a"', known)


@pytest.mark.parametrize("known", ["", "a", '"b"', 'W/"b"', '"b", "c"', '"a" "b"'])
def test_other_etag_does_not_match(known: str) -> None:
    assert not etag_matches('"a"', known)
