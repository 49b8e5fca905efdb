"""The pages /docs/guide: a table of contents, chapters, and the images in them. Everyone may read them."""

from hashlib import sha256

from fastapi import APIRouter, Request, Response

from copydesk.core.errors import NotFound
from copydesk.web.dashboard.guide.chapters import GUIDE_URL, SOURCE_URL, list_chapters, list_files
from copydesk.web.dashboard.guide.page_html import render_guide_page
from copydesk.web.dashboard.guide.search import MAX_QUERY_CHARS, search_guide
from copydesk.web.responses.etags import etag_matches
from copydesk.web.responses.html import render_page

router = APIRouter()
CACHE_HEADERS = {"Cache-Control": "public, max-age=300", "Vary": "Accept"}
MEDIA_TYPES = {".png": "image/png", ".js": "text/plain; charset=utf-8", ".ts": "text/plain; charset=utf-8"}


@router.get(GUIDE_URL)
def show_contents(request: Request, search: str = "") -> Response:
    query = search.strip()[:MAX_QUERY_CHARS]
    page = render_page(
        "guide.html",
        title="Guide",
        name="",
        page=None,
        chapters=list_chapters(),
        search=query,
        results=search_guide(query),
        online_url=f"{SOURCE_URL}/tree/main/docs",
        is_installed=bool(list_files()),
    )
    return _make_cacheable(request, page)


@router.get(GUIDE_URL + "/{chapter}")
def show_chapter(request: Request, chapter: str) -> Response:
    return _show_file(request, chapter)


@router.get(GUIDE_URL + "/{folder}/{chapter}")
def show_chapter_in_folder(request: Request, folder: str, chapter: str) -> Response:
    return _show_file(request, f"{folder}/{chapter}")


def _show_file(request: Request, name: str) -> Response:
    """Returns a page, an image or an example. Links that end with `.md` work too."""
    name = name.removesuffix(".md").removesuffix("/README")
    file = list_files().get(name)
    if file is None:
        raise NotFound("The guide has no such page.")
    if file.suffix != ".md":
        headers = {"X-Content-Type-Options": "nosniff"}
        response = Response(file.read_bytes(), media_type=MEDIA_TYPES[file.suffix], headers=headers)
        return _make_cacheable(request, response)
    page = render_guide_page(name)
    response = render_page("guide.html", title=page.title, name=name, page=page, chapters=list_chapters(), search="")
    return _make_cacheable(request, response)


def _make_cacheable(request: Request, response: Response) -> Response:
    """Adds an ETag, and answers 304 to clients that have the page."""
    etag = f'"{sha256(bytes(response.body)).hexdigest()[:32]}"'
    response.headers.update({**CACHE_HEADERS, "ETag": etag})
    if etag_matches(etag, request.headers.get("if-none-match", "")):
        kept = {name: value for name, value in response.headers.items() if name != "content-length"}
        return Response(status_code=304, headers=kept)
    return response
