"""The addresses that a page may have on its site: by its path, its number or date, and its front matter."""

import posixpath
import re

from copydesk.jobs.pages.page_types import INDEX_NAMES, strip_extension
from copydesk.jobs.pages.parsing.page_facts import PageFacts

NUMBER_PREFIX_PATTERN = re.compile(r"(^|/)\d+[ \t]*[-_.]+[ \t]*(?=[^-_.\s\d/])")
DATE_PREFIX_PATTERN = re.compile(r"(^|/)(\d{4})[-/](\d\d)[-/](\d\d)[-/](?=[^/]+$)")


def list_addresses(kind: str, path: str, facts: PageFacts) -> list[str]:
    """Returns all addresses that a page may have on its site, the most likely first, without slashes around them."""
    page_path = strip_extension(path)
    addresses = [page_path]
    folder, _, name = page_path.rpartition("/")
    if name in INDEX_NAMES:
        addresses.append(folder)
    if kind == "docusaurus":
        if (unnumbered := NUMBER_PREFIX_PATTERN.sub(r"\1", page_path)) != page_path:
            addresses.append(unnumbered)
            page_path = unnumbered
            folder = unnumbered.rpartition("/")[0]
            if unnumbered.rpartition("/")[2] in INDEX_NAMES:
                addresses.append(folder)
        if folder and page_path.rpartition("/")[2] == folder.rpartition("/")[2]:
            addresses.append(folder)
        dated_path = folder if name in INDEX_NAMES else page_path
        if DATE_PREFIX_PATTERN.search(dated_path):
            addresses += [
                DATE_PREFIX_PATTERN.sub(r"\1\2/\3/\4/", dated_path),
                DATE_PREFIX_PATTERN.sub(r"\1", dated_path),
            ]
    fields = facts.fields
    if fields:
        for key in ("slug", "id", "permalink", "url"):
            value = fields.get(key)
            if isinstance(value, str) and value:
                address = value.strip("/") if value.startswith("/") else f"{folder}/{value}".strip("/")
                # Docusaurus uses the ID in place of the file's name, also for the address.
                addresses.insert(0 if kind == "docusaurus" and key == "id" else len(addresses), address)
                if key == "slug" and not value.startswith("/"):
                    addresses.append(value.strip("/"))
    return addresses


def build_docusaurus_address(path: str, facts: PageFacts) -> str:
    """Returns the address of a Docusaurus page in its folder of pages, with a slash at the end for an index page."""
    folder, _, name = NUMBER_PREFIX_PATTERN.sub(r"\1", strip_extension(path)).rpartition("/")
    slug = facts.fields.get("slug")
    if isinstance(slug, str) and slug:
        return posixpath.normpath(posixpath.join("/", folder, slug)).lstrip("/") + ("/" if slug.endswith("/") else "")
    if name.lower() in ("index", "readme", folder.rpartition("/")[2].lower()):
        return f"{folder}/"
    page_id = facts.fields.get("id")
    return f"{folder}/{page_id if isinstance(page_id, str) and page_id else name}".lstrip("/")
