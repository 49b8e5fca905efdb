"""Who asked for a page: a person, an assistant, a search engine, a gatherer of training data, or something else."""

import re
from collections.abc import Callable
from functools import lru_cache

from copydesk.analytics.classification.agent_table import Row, Table
from copydesk.analytics.classification.crawler_list import NAME
from copydesk.analytics.classification.ip_ranges import Ranges
from copydesk.analytics.page_paths import Form
from copydesk.analytics.page_view import Class, Verdict

DISTINCT_AGENTS = 1 << 14
LONGEST_AGENT = 1024
SAYS_MARKDOWN = re.compile(r"(?:^|[\s,])text/(?:x-)?markdown(?![^\s,;])", re.IGNORECASE)
SAYS_BOT = re.compile(
    r"(?<!cu)(?<!x)bot(?![a-z\d]|[ _](?:\d|tab|build|plus))|crawl(?:er|ing)?(?![a-z])|spider(?! ?\d)"
    r"|scrap(?:er|ing)|slurp|headless"
    r"|like gecko; (?!opera)|https?:(?!//(?:bsalsa|www\.qtweb))",
    re.IGNORECASE,
)
"""Cubot and XBot make phones, Spider is a tablet, and two old browsers carry the address of their makers."""
LOOKS_LIKE_A_BROWSER = re.compile(
    r"applewebkit|khtml|gecko/|msie \d|trident/|presto/|netfront|hbbtv/|goanna|servo/|browser/\d"
    r"|^mozilla/\d.{0,20}\((?:[^()]{0,60}; ?)?(?:win|mac|x11|linux|os/2|amiga|beos|risc|playstation|nintendo)",
    re.IGNORECASE,
)

Opinion = Callable[[str], Class | None]
"""What a list kept elsewhere says of an agent that our own table does not know."""


def no_opinion(agent: str) -> None:
    return None


class Classifier:
    """Strongest signal first: signature, address, what is asked for, the name, the look. Remembers what it judged."""

    def __init__(self, table: Table, ranges: Ranges, opinion: Opinion = no_opinion) -> None:
        self.version = table.version
        self._table, self._ranges, self._opinion = table, ranges, opinion
        self._signers = {s.host: Verdict(s.kind, s.agent, s.operator, f"signature:{s.host}") for s in table.signers}
        self._claim = lru_cache(maxsize=DISTINCT_AGENTS)(self._judged)

    def __reduce__(self) -> tuple[type["Classifier"], tuple[Table, Ranges, Opinion]]:
        """For another process, which remembers its own."""
        return Classifier, (self._table, self._ranges, self._opinion)

    def judge(
        self,
        agent: str | None,
        accept: str | None = None,
        form: Form = Form.HTML,
        *,
        address: bytes | None = None,
        signer: str | None = None,
        known_visitor: bool = False,
    ) -> Verdict:
        """`known_visitor`: the site itself names the visitor, so that a view without an agent is a person's."""
        if signer and (signed := self._signers.get(signer)):
            return signed
        claim = self._claim(agent, markdown_asked(accept), form, known_visitor)
        if address and (listed := self._ranges.get(address)):
            if listed.operator == claim.operator:  # the claim is true, and says more than the list
                return Verdict(claim.kind, claim.agent, claim.operator, f"address:{listed.name}")
            return Verdict(listed.kind, listed.agent, listed.operator, f"address:{listed.name}")
        return claim

    def _judged(self, agent: str | None, asked: str, form: Form, known_visitor: bool) -> Verdict:
        agent = (agent or "")[:LONGEST_AGENT].strip()
        row = self._table.find(agent)
        if row and not row.library and row.kind is not Class.HUMAN:
            return Verdict(row.kind, row.agent, row.operator, f"token:{row.token}")
        is_browser = bool(LOOKS_LIKE_A_BROWSER.search(agent))
        known_elsewhere = None if row or is_browser else self._opinion(agent)  # of browsers, lists know too much
        if (asked or form is Form.LLMS) and known_elsewhere is None:
            return self._reader(asked, row)
        if row and row.library:
            if form is Form.MARKDOWN:
                return Verdict(Class.ASSISTANT, row.agent, row.operator, "path:markdown")
            return Verdict(row.kind, row.agent, row.operator, f"token:{row.token}")
        if known_elsewhere is not None:
            return Verdict(known_elsewhere, "Listed bot", "", f"list:{NAME}")
        return self._looks(agent, form, is_browser or row is not None, known_visitor)

    def _reader(self, asked: str, row: Row | None) -> Verdict:
        for shape in self._table.shapes:
            if asked.startswith(shape.accept) and (not shape.sent_by or (row and row.token == shape.sent_by)):
                return Verdict(Class.ASSISTANT, shape.agent, shape.operator, "accept:markdown")
        name, operator = (row.agent, row.operator) if row and row.library else ("Markdown reader", "")
        return Verdict(Class.ASSISTANT, name, operator, "accept:markdown" if asked else "path:llms")

    def _looks(self, agent: str, form: Form, is_browser: bool, known_visitor: bool) -> Verdict:
        if not agent:
            if known_visitor:
                return Verdict(Class.HUMAN, "Unnamed browser", "", "visitor-id")
            return Verdict(Class.OTHER, "Unnamed client", "", "no-agent")
        if word := SAYS_BOT.search(agent):
            return Verdict(Class.OTHER, "Unnamed bot", "", f"word:{word[0].lower()}")
        if is_browser:
            return Verdict(Class.HUMAN, "Browser", "", "browser")
        if form is Form.MARKDOWN:
            return Verdict(Class.ASSISTANT, "Markdown reader", "", "path:markdown")
        return Verdict(Class.OTHER, "Unknown client", "", "unknown")


@lru_cache(maxsize=1 << 10)
def markdown_asked(accept: str | None) -> str:
    """The Accept header without spaces where it asks for Markdown, which no browser does; else nothing."""
    if not accept or not SAYS_MARKDOWN.search(accept):
        return ""
    return accept.replace(" ", "").lower()[:200]
