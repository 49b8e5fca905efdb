"""/static/…: the few files that pages load. Their addresses change with them, so that browsers may keep them."""

from functools import lru_cache

from fastapi import APIRouter, Response

from copydesk.core.errors import NotFound
from copydesk.web.responses.html import STATIC

router = APIRouter(include_in_schema=False)
KINDS = {"css": "text/css", "js": "text/javascript", "svg": "image/svg+xml"}
FILES = frozenset(file.name for file in STATIC.iterdir() if not file.name.startswith("beacon"))
HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


@router.get("/static/{name}")
async def static(name: str) -> Response:
    if name not in FILES:
        raise NotFound
    return Response(_content(name), media_type=KINDS[name.rpartition(".")[2]], headers=HEADERS)


@lru_cache
def _content(name: str) -> bytes:
    return (STATIC / name).read_bytes()
