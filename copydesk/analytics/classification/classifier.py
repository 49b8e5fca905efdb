"""Classifies visitors: people, AI assistants, search engines, crawlers for training data, and others."""

import re
from collections.abc import Callable
from functools import lru_cache

from copydesk.analytics.classification.agent_table import AgentEntry, AgentTable
from copydesk.analytics.classification.crawler_list import CRAWLER_LIST_NAME
from copydesk.analytics.classification.ip_ranges import IpRanges
from copydesk.analytics.page_paths import PageFormat
from copydesk.analytics.page_view import Classification, VisitorClass

MAX_CACHED_AGENTS = 1 << 14
MAX_AGENT_CHARS = 1024
CLAIM_PREFIX = "claimed:"
"""Marks a signer that a request names and whose signature is not verified."""
MARKDOWN_TYPE_PATTERN = re.compile(r"(?:^|[\s,])text/(?:x-)?markdown(?![^\s,;])", re.IGNORECASE)
BOT_WORD_PATTERN = re.compile(
    r"(?<!cu)(?<!x)bot(?![a-z\d]|[ _](?:\d+(?!\.?\d)|tab|build|plus))|crawl(?:er|ing)?(?![a-z])|spider(?! ?\d)"
    r"|scrap(?:er|ing)|slurp|headless"
    r"|like gecko; (?!opera|\w{1,20}explorer|googleweblight)|https?:(?!//(?:bsalsa|www\.qtweb))",
    re.IGNORECASE,
)
"""Words of bots, and `bot 1.1`. Exceptions: `bot 54` is a phone, Cubot and XBot are phone makers, Spider is a tablet,
and two old browsers have a URL in their user agent."""
BROWSER_PATTERN = re.compile(
    r"applewebkit|khtml|gecko/|msie \d|trident/|presto/|netfront|hbbtv/|goanna|servo/|konqueror/"
    r"|(?<!agent)(?<!agent-)(?<!agentcore-)browser/\d|^mozilla/[45]\.0$"
    r"|^mozilla/\d.{0,20}\((?:[^()]{0,60}; ?)?(?:win|mac|x11|linux|os/2|amiga|beos|risc|playstation|nintendo)",
    re.IGNORECASE,
)
PERSON_PROXY_LISTS = frozenset({"google-user-triggered", "google-user-triggered-google"})
"""Lists of addresses from which people read too, because Google fetches pages for them with their user agent."""

CrawlerLookup = Callable[[str], VisitorClass | None]
"""Looks up a user agent in an external list, for agents that our table does not have."""


def no_crawler_lookup(user_agent: str) -> None:
    return None


class Classifier:
    """Classifies by the strongest signal: signature, IP address, requested format, agent name, appearance.

    Caches results.
    """

    def __init__(self, table: AgentTable, ranges: IpRanges, crawler_lookup: CrawlerLookup = no_crawler_lookup) -> None:
        self.version = table.version
        self._table = table
        self._ranges = ranges
        self._crawler_lookup = crawler_lookup
        self._classification_by_signer = {
            s.host: Classification(s.kind, s.agent, s.operator, f"signature:{s.host}") for s in table.signers
        }
        self._classify_claim_cached = lru_cache(maxsize=MAX_CACHED_AGENTS)(self._classify_claim)

    def __reduce__(self) -> tuple[type["Classifier"], tuple[AgentTable, IpRanges, CrawlerLookup]]:
        """Pickles without the cache; the other process builds a new one."""
        return Classifier, (self._table, self._ranges, self._crawler_lookup)

    def classify(
        self,
        user_agent: str | None,
        accept: str | None = None,
        page_format: PageFormat = PageFormat.HTML,
        *,
        address: bytes | None = None,
        signer: str | None = None,
        has_visitor_id: bool = False,
    ) -> Classification:
        """Returns the class of a visitor.

        `has_visitor_id` means that the site identified the visitor; then a view without a user agent is a person's.
        """
        if signer and (signed := self._classification_by_signer.get(signer)):
            return signed
        claim = self._classify_claim_cached(user_agent, normalize_markdown_accept(accept), page_format, has_visitor_id)
        if signer and signer.startswith(CLAIM_PREFIX):
            claim = self._classify_claimed_signer(signer.removeprefix(CLAIM_PREFIX), claim)
        if address and (range_list := self._ranges.get(address)):
            if range_list.name in PERSON_PROXY_LISTS and claim.kind is VisitorClass.HUMAN:
                return claim
            if (
                range_list.operator == claim.operator
            ):  # the address confirms the claim, which is more specific than the list
                return Classification(claim.kind, claim.agent, claim.operator, f"address:{range_list.name}")
            return Classification(range_list.kind, range_list.agent, range_list.operator, f"address:{range_list.name}")
        return claim

    def reclassify(self, rule: str, agent: str, operator: str) -> Classification | None:
        """Returns the class that the current table gives to views that this rule classified.

        None if it cannot be known without the request, of which only the rule and the agent are stored.
        """
        rule_kind, _, name = rule.partition(":")
        if rule_kind == "token":
            return self._reclassify_token(name)
        if rule_kind == "signature":
            return self._classification_by_signer.get(name)
        if rule_kind == "address" and name not in PERSON_PROXY_LISTS:
            return self._reclassify_address(name, agent, operator)
        return None

    def _reclassify_token(self, token: str) -> Classification | None:
        entry = self._table.find_token(token)
        if entry is None:
            return None
        if entry.kind is VisitorClass.HUMAN:
            return Classification(VisitorClass.HUMAN, "Browser", "", "browser")
        return Classification(entry.kind, entry.agent, entry.operator, f"token:{entry.token}")

    def _reclassify_address(self, list_name: str, agent: str, operator: str) -> Classification | None:
        range_list = next((known for known in self._ranges.lists if known.name == list_name), None)
        if range_list is None:
            return None
        if operator == range_list.operator and (entry := self._table.find_agent(agent, operator)):
            return Classification(entry.kind, entry.agent, entry.operator, f"address:{list_name}")
        return Classification(range_list.kind, range_list.agent, range_list.operator, f"address:{list_name}")

    def _classify_claimed_signer(self, host: str, claim: Classification) -> Classification:
        """Returns the class of a signer without a verified signature. An unknown signer is not a person."""
        if known := self._table.find_signer_domain(host):
            return Classification(known.kind, known.agent, known.operator, f"signature-agent:{known.domain}")
        if claim.kind is VisitorClass.HUMAN:
            return Classification(VisitorClass.OTHER, "Signing agent", "", "signature-agent:unknown")
        return claim

    def _classify_claim(
        self, user_agent: str | None, markdown_accept: str, page_format: PageFormat, has_visitor_id: bool
    ) -> Classification:
        user_agent = (user_agent or "")[:MAX_AGENT_CHARS].strip()
        entry = self._table.find(user_agent)
        if entry and not entry.library and entry.kind is not VisitorClass.HUMAN:
            return Classification(entry.kind, entry.agent, entry.operator, f"token:{entry.token}")
        is_browser = bool(BROWSER_PATTERN.search(user_agent))
        # Browsers are not looked up, because the list takes some of them for bots.
        crawler_class = None if entry or is_browser else self._crawler_lookup(user_agent)
        if (markdown_accept or page_format is PageFormat.LLMS) and crawler_class is None:
            return self._classify_markdown_reader(markdown_accept, entry)
        if entry and entry.library:
            if page_format is PageFormat.MARKDOWN:
                return Classification(VisitorClass.ASSISTANT, entry.agent, entry.operator, "path:markdown")
            return Classification(entry.kind, entry.agent, entry.operator, f"token:{entry.token}")
        if crawler_class is not None:
            return Classification(crawler_class, "Listed bot", "", f"list:{CRAWLER_LIST_NAME}")
        return self._classify_by_appearance(user_agent, page_format, is_browser or entry is not None, has_visitor_id)

    def _classify_markdown_reader(self, markdown_accept: str, entry: AgentEntry | None) -> Classification:
        for rule in self._table.accept_rules:
            if markdown_accept.startswith(rule.accept) and (
                not rule.sent_by or (entry and entry.token == rule.sent_by)
            ):
                return Classification(VisitorClass.ASSISTANT, rule.agent, rule.operator, "accept:markdown")
        name, operator = (entry.agent, entry.operator) if entry and entry.library else ("Markdown reader", "")
        return Classification(
            VisitorClass.ASSISTANT, name, operator, "accept:markdown" if markdown_accept else "path:llms"
        )

    def _classify_by_appearance(
        self, user_agent: str, page_format: PageFormat, is_browser: bool, has_visitor_id: bool
    ) -> Classification:
        if not user_agent:
            if has_visitor_id:
                return Classification(VisitorClass.HUMAN, "Unnamed browser", "", "visitor-id")
            return Classification(VisitorClass.OTHER, "Unnamed client", "", "no-agent")
        if match := BOT_WORD_PATTERN.search(user_agent):
            return Classification(VisitorClass.OTHER, "Unnamed bot", "", f"word:{match[0].lower()}")
        if is_browser:
            return Classification(VisitorClass.HUMAN, "Browser", "", "browser")
        if page_format is PageFormat.MARKDOWN:
            return Classification(VisitorClass.ASSISTANT, "Markdown reader", "", "path:markdown")
        return Classification(VisitorClass.OTHER, "Unknown client", "", "unknown")


@lru_cache(maxsize=1 << 10)
def normalize_markdown_accept(accept: str | None) -> str:
    """Returns the Accept header without spaces, in lower case, if it includes Markdown; otherwise "".

    No browser requests Markdown.
    """
    if not accept or not MARKDOWN_TYPE_PATTERN.search(accept):
        return ""
    return accept.replace(" ", "").lower()[:200]
