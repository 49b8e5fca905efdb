"""Drafts a request from a commit message: a message tells what was done, a request asks for it."""

import re

TRAILER_PATTERN = re.compile(
    r"^[A-Z][\w-]+(?:-by|-By): .*$|^(?:Fixes|Closes|Resolves|Refs?|See)[: ]+\S*#\d+\.?$"
    r"|^\s*\[(?:skip ci|ci skip)\]\s*$|^-{5,}$",
    re.M,
)
PREFIX_PATTERN = re.compile(
    r"^(?:docs?|chore|fix|feat|style|refactor|content|i18n)\s*(?:\([^)]*\))?!?:\s*|^\[[\w -]+\]\s*"
    r"|^update from code changes:\s*",
    re.I,
)
DECORATION_PATTERN = re.compile(r"^(?:[^\w\s`\"'“(<\[]|:[a-z_]+:|[\u200d\ufe0f])+\s*")
PULL_NUMBER_PATTERN = re.compile(r"\s*\(#\d+\)\s*$")
MERGE_PATTERN = re.compile(r"^(?:Merge (?:pull request|branch|remote-tracking)\b|See merge request\b).*$", re.M)
NON_REQUEST_PATTERN = re.compile(
    r"^(?:revert|release|bump|wip\b|version|v?\d+\.\d+|update translations for \w)"
    r"|\b(?:release notes|changelog|change log|sponsors?|contributors|people)\b",
    re.I,
)
SQUASHED_PATTERN = re.compile(r"^[ \t]*[*-][ \t]+\S.*$", re.M)
NARRATION_PATTERN = re.compile(
    r"\b(?:this (?:pr|pull request|change|commit|patch)|i (?:noticed|found|think|have|was)|i['’]ve|previously|now)\b"
    r"|\w#\d+"
    r"|^(?:updated|removed|added|fixed|changed|replaced|corrected|refactored|moved|improved|clarified)\b",
    re.I | re.M,
)
VERBS = frozenset(
    re.findall(
        r"\w+",
        """add adjust align apply capitalize change clarify clean combine complete consolidate convert correct create
        deduplicate delete demonstrate describe document drop emphasize enable escape exclude expand explain expose
        extend extract fix format generalize group hide highlight improve include indent inline insert introduce link
        list make mark mention merge migrate modernize move note omit polish prefer promote provide recommend reduce
        refer refine reformat reformulate remove rename reorder reorganize rephrase replace resolve restore
        restructure revise reword rewrite say separate set shorten show simplify sort specify split state sync
        synchronize switch tighten translate trim tweak unify update upgrade use warn wrap write""",
    )
)
VAGUE_WORDS = frozenset(
    re.findall(
        r"\w+",
        """typo typos typographical error errors mistake mistakes grammar wording docs doc documentation readme link
        links broken dead url urls formatting format style styles some minor small a an the few various page pages
        translation translations missing outdated spelling code example examples and or of in anchors anchor brand
        tone writing fixes best practices seo metadata""",
    )
)
MAX_BODY_CHARS = 600
MAX_NAMED_FILES = 2


def draft_prompt(message: str, paths: tuple[str, ...] = ()) -> str:
    """Returns a request, or "" if the message asks for nothing that can be done.

    A request that names no subject, such as “Fix typo”, gets the path of the page, if there are one or two."""
    text = TRAILER_PATTERN.sub("", MERGE_PATTERN.sub("", message.replace("\r\n", "\n"))).strip()
    subject, _, body = text.partition("\n")
    subject = _make_imperative(_strip_decoration(subject))
    words = subject.split()
    if not words or words[0].lower() not in VERBS or len(words) < 2 or NON_REQUEST_PATTERN.search(subject):
        return ""
    if is_vague(subject):
        if not 0 < len(paths) <= MAX_NAMED_FILES:
            return ""
        subject = f"{subject.rstrip('.')} in {' and '.join(sorted(paths))}"
    body = _clean_body(body)
    return f"{subject[0].upper()}{subject[1:]}" + (f"\n\n{body}" if body else "")


def is_vague(subject: str) -> bool:
    """Returns whether a subject says only what kind of change it is."""
    words = re.findall(r"[\w`./-]+", subject)[1:]
    return all(word.lower() in VAGUE_WORDS for word in words)


def _strip_decoration(subject: str) -> str:
    """Removes emoji, prefixes such as "docs:", and the number of a pull request, in any order."""
    while True:
        shorter = PULL_NUMBER_PATTERN.sub(
            "", PREFIX_PATTERN.sub("", DECORATION_PATTERN.sub("", subject.strip()))
        ).strip()
        if shorter == subject:
            return subject
        subject = shorter


def _make_imperative(subject: str) -> str:
    """Turns the first word into the form of a request: “Fixed”, “fixes” and “fixing” become “Fix”."""
    first, space, rest = subject.partition(" ")
    word = first.lower()
    for ending in ("ed", "es", "ing", "d", "s"):
        stem = word.removesuffix(ending)
        forms = (stem, f"{stem}e", stem[:-1] if len(stem) > 2 and stem[-1] == stem[-2] else "", f"{stem[:-1]}y")
        if word not in VERBS and stem != word:
            verb = next((form for form in forms if form in VERBS), None)
            if verb is not None:
                return f"{verb.capitalize()}{space}{rest}"
    return subject


def _clean_body(body: str) -> str:
    """Returns the explanation; "" if it lists squashed commits or tells the story of the change."""
    body = re.sub(r"\n{3,}", "\n\n", body).strip()
    is_story = SQUASHED_PATTERN.search(body) or NARRATION_PATTERN.search(body)
    return "" if is_story or len(body) > MAX_BODY_CHARS else body
