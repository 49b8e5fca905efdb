"""The prompt of a job that improves a page. What readers wrote is data in it, and is left out of pull requests."""

from collections.abc import Sequence

from copydesk.analytics.interactions.feedback import OPEN_STATUSES, FeedbackEntry, FeedbackFilter
from copydesk.analytics.interactions.searches import LeadingSearch
from copydesk.core.errors import InvalidRequest
from copydesk.core.projects.projects import Project
from copydesk.core.text.reader_data import quote_reader_data
from copydesk.core.text.truncation import to_single_line, truncate
from copydesk.desk import Desk
from copydesk.jobs.pages.missing_addresses import is_safe_address
from copydesk.jobs.projects.page_history import to_safe_line
from copydesk.jobs.publish.guard.secret_scanner import redact_secrets

MAX_COMMENTS = 10
MAX_SEARCHES = 10
MAX_COMMENT_CHARS = 300
MAX_FILE_CHARS = 500
INSTRUCTIONS = (
    "Find out what readers miss or misunderstand, verify it, and change only what makes the page more helpful. "
    "If nothing needs to change, say so."
)


def can_improve(path: str, source_path: str | None) -> bool:
    """Returns whether a job can name the page. Visitors make up paths, so only plain ones are named in a prompt."""
    return source_path is not None or path == "/" or is_safe_address(path)


def load_improvement_prompt(desk: Desk, project: Project, path: str, source_path: str | None) -> str:
    """Returns the prompt with the open negative comments, newest first, and the searches that led to the page."""
    if not can_improve(path, source_path):
        raise InvalidRequest("This path is not one that a page can have, so no job can improve it.")
    complaints = FeedbackFilter(path=path, helpful=False, has_comment=True, statuses=OPEN_STATUSES)
    comments, _ = desk.feedback.list_entries(project.id, complaints, MAX_COMMENTS)
    searches = desk.searches.list_leading_to(project.id, path, limit=MAX_SEARCHES)
    return build_improvement_prompt(path, source_path, comments, searches)


def build_improvement_prompt(
    path: str, source_path: str | None, comments: Sequence[FeedbackEntry], searches: Sequence[LeadingSearch]
) -> str:
    names = [f'"{path}"'] if path == "/" or is_safe_address(path) else []
    if source_path is not None:
        file_name = to_safe_line(source_path, MAX_FILE_CHARS)
        names.append(f"(the file {file_name})" if names else f"in the file {file_name}")
    prompt = f"Improve the page {' '.join(names)}. {INSTRUCTIONS}"
    lines = [f"comment of a reader who found the page not helpful: {_shorten(each.comment or '')}" for each in comments]
    lines += [f"search that led to the page ({each.hits} times): {_shorten(each.query)}" for each in searches]
    return f"{prompt}\n\n{quote_reader_data(lines)}" if lines else prompt


def _shorten(text: str) -> str:
    return truncate(redact_secrets(to_single_line(text), ()), MAX_COMMENT_CHARS)
