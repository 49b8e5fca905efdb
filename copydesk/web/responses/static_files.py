"""The route /static/… for files that pages load. Their URLs contain a hash, so that browsers can cache them forever."""

from functools import lru_cache

from fastapi import APIRouter, Response

from copydesk.core.errors import NotFound
from copydesk.web.responses.html import STATIC_FOLDER

router = APIRouter(include_in_schema=False)
MEDIA_TYPES = {"css": "text/css", "ico": "image/x-icon", "js": "text/javascript", "svg": "image/svg+xml"}
STATIC_FILE_NAMES = frozenset(file.name for file in STATIC_FOLDER.iterdir() if not file.name.startswith("beacon"))
STATIC_HEADERS = {"Cache-Control": "public, max-age=31536000, immutable", "X-Content-Type-Options": "nosniff"}


@router.get("/static/{name}")
async def get_static_file(name: str) -> Response:
    if name not in STATIC_FILE_NAMES:
        raise NotFound
    return Response(_read_static_file(name), media_type=MEDIA_TYPES[name.rpartition(".")[2]], headers=STATIC_HEADERS)


@router.get("/favicon.ico")
async def get_favicon() -> Response:
    """Returns the icon for browsers and tools that ask for it without reading a page."""
    headers = {**STATIC_HEADERS, "Cache-Control": "public, max-age=86400"}
    return Response(_read_static_file("favicon.ico"), media_type=MEDIA_TYPES["ico"], headers=headers)


@lru_cache
def _read_static_file(name: str) -> bytes:
    return (STATIC_FOLDER / name).read_bytes()
