"""Which web pages may call MCP."""

import pytest

from copydesk.mcp.http.origins import OriginCheck, OriginRefused


@pytest.mark.parametrize("origin", ["http://localhost:3000", "http://127.0.0.1:8080", "http://[::1]:8080"])
def test_pages_on_the_callers_own_machine_are_refused_unless_the_service_is_there(origin: str) -> None:
    public = OriginCheck("https://desk.example.org", ["other.example.org"])
    public.check("desk.example.org", "https://other.example.org")
    public.check("localhost:8080", None)
    with pytest.raises(OriginRefused):
        public.check("desk.example.org", origin)
    OriginCheck("http://127.0.0.1:8080", []).check("localhost:8080", origin)
