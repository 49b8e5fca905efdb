"""Classification of requests: the strongest signal wins, and a browser's name never makes a person a bot."""

from ipaddress import ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.classification.agent_table import load_agent_table
from copydesk.analytics.classification.classifier import (
    CLAIM_PREFIX,
    MAX_CACHED_AGENTS,
    Classifier,
    normalize_markdown_accept,
)
from copydesk.analytics.classification.ip_ranges import IpRanges, load_shipped_lists
from copydesk.analytics.classification.reclassification import find_reclassifications
from copydesk.analytics.page_paths import PageFormat
from copydesk.analytics.page_view import Classification, VisitorClass
from copydesk.analytics.stores.report_rows import RuleRow
from tests.support.cpu_budget import limit_cpu

CHROME = (
    "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0 Safari/537.36"
)
GPTBOT = "Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.3; +https://openai.com/gptbot)"
MARKDOWN = "text/markdown, text/html;q=0.9, */*;q=0.1"


def browser_agent_with_product(product: str) -> str:
    return CHROME.replace("Chrome/", f"{product}/1.95.3 Chrome/").replace("Safari/", "Electron/39.2.4 Safari/")


def address_in_list(name: str) -> bytes:
    [listed] = [listed for listed in load_shipped_lists() if listed.name == name]
    return ip_address(listed.prefixes[0].split("/")[0]).packed


@pytest.mark.parametrize("product", ["Code", "Cursor", "Trae", "Windsurf", "VSCodium", "Slack", "obsidian", "Operator"])
def test_browser_built_into_an_editor_is_human(product: str, classifier: Classifier) -> None:
    assert classifier.classify(browser_agent_with_product(product)).kind is VisitorClass.HUMAN


@pytest.mark.parametrize(("product", "operator"), [("Claude", "Anthropic"), ("ChatGPT", "OpenAI")])
def test_desktop_application_of_an_assistant_is_an_assistant(
    product: str, operator: str, classifier: Classifier
) -> None:
    said = Classification(VisitorClass.ASSISTANT, f"{product} desktop", operator, f"token:{product}")
    assert classifier.classify(browser_agent_with_product(product)) == said


@pytest.mark.parametrize(
    "agent",
    [
        CHROME.replace("Windows NT 10.0", "Linux; Android 12; Cursor X5"),
        CHROME.replace("Windows NT 10.0", "Linux; Android 12; Devin 7"),
        CHROME.replace("Windows NT 10.0", "Linux; Android 12; CUBOT_X18"),
        CHROME.replace("Windows NT 10.0", "Linux; Android 7.0; M bot 54"),
        CHROME.replace("Windows NT 10.0", "Linux; Android 13; Spider 8"),
        CHROME + " OpenAIFan/1.0",
        CHROME + " NotGPTBotAtAll/1.0",
        CHROME + " Claudette/2",
    ],
)
def test_token_inside_another_word_or_device_name_is_ignored(agent: str, classifier: Classifier) -> None:
    assert classifier.classify(agent).kind is VisitorClass.HUMAN


@pytest.mark.parametrize(
    "agent", ["GPTBot", "gptbot/1.0", GPTBOT, "x (GPTBot; y)", "a,GPTBot,b", "+GPTBot@example.com"]
)
def test_token_as_separate_word_matches_in_any_case(agent: str, classifier: Classifier) -> None:
    assert classifier.classify(agent) == Classification(VisitorClass.TRAINING, "GPTBot", "OpenAI", "token:GPTBot")


def test_token_of_several_words_ends_at_a_word_boundary(classifier: Classifier) -> None:
    assert classifier.classify("Kangaroo Bot/1.0").rule == "token:Kangaroo Bot"
    assert not classifier.classify("Kangaroo Botanist/1.0").rule.startswith("token:")
    assert not classifier.classify("bigsur.aim/1.0").rule.startswith("token:")


def test_first_matching_row_of_the_table_wins(classifier: Classifier) -> None:
    claude = classifier.classify("Claude-User (claude-code/2.1.107; +https://support.anthropic.com/)")
    assert (claude.agent, claude.operator) == ("Claude Code", "Anthropic")
    assert classifier.classify("Mozilla/5.0 (compatible; Claude-User/1.0)").agent == "Claude-User"


def test_client_that_accepts_markdown_is_an_assistant(classifier: Classifier) -> None:
    for agent in (CHROME, "curl/8.7.1", "Whatever/1.0", "", None):
        assert classifier.classify(agent, MARKDOWN).kind is VisitorClass.ASSISTANT
        assert classifier.classify(agent, MARKDOWN).rule == "accept:markdown"


def test_known_crawler_that_accepts_markdown_stays_a_crawler(classifier: Classifier) -> None:
    assert classifier.classify(GPTBOT, MARKDOWN).kind is VisitorClass.TRAINING
    assert classifier.classify("Slackbot 1.0 (+https://api.slack.com/robots)", MARKDOWN).kind is VisitorClass.OTHER
    assert classifier.classify("ia_archiver-web.archive.org", MARKDOWN).kind is VisitorClass.OTHER


def test_client_with_a_distinctive_accept_header_is_named(classifier: Classifier) -> None:
    named = {
        ("axios/1.8.4", "text/markdown, text/html, */*"): "Claude Code",
        (CHROME, "text/markdown;q=1.0, text/x-markdown;q=0.9, text/plain;q=0.8, */*;q=0.1"): "opencode and kin",
        ("node", "text/markdown, text/plain;q=0.9, */*;q=0.8"): "Cursor",
        ("curl/8.7.1", "text/markdown"): "curl",
        (CHROME, "text/markdown"): "Markdown reader",
    }
    assert {case: classifier.classify(*case).agent for case in named} == named


def test_a_markdown_address_makes_a_library_an_assistant_but_not_a_person(classifier: Classifier) -> None:
    assert classifier.classify("curl/8.7.1", "*/*", PageFormat.MARKDOWN).kind is VisitorClass.ASSISTANT
    assert classifier.classify("Whatever/1.0", "*/*", PageFormat.MARKDOWN).kind is VisitorClass.ASSISTANT
    assert classifier.classify(CHROME, "text/html,*/*;q=0.8", PageFormat.MARKDOWN).kind is VisitorClass.HUMAN
    assert classifier.classify("curl/8.7.1", "*/*").kind is VisitorClass.OTHER


def test_llms_txt_is_read_by_ai_and_by_known_crawlers(classifier: Classifier) -> None:
    assert classifier.classify(CHROME, None, PageFormat.LLMS) == Classification(
        VisitorClass.ASSISTANT, "Markdown reader", "", "path:llms"
    )
    assert classifier.classify(GPTBOT, None, PageFormat.LLMS).kind is VisitorClass.TRAINING


def test_signature_overrides_all_other_rules(classifier: Classifier) -> None:
    signed = classifier.classify(CHROME, signer="chatgpt.com", address=address_in_list("bing-bingbot"))
    assert signed == Classification(VisitorClass.ASSISTANT, "ChatGPT agent", "OpenAI", "signature:chatgpt.com")
    assert classifier.classify(CHROME, signer="stranger.example").kind is VisitorClass.HUMAN


def test_published_address_range_overrides_the_user_agent(classifier: Classifier) -> None:
    found = classifier.classify(CHROME, address=address_in_list("openai-chatgpt-user"))
    assert found == Classification(VisitorClass.ASSISTANT, "ChatGPT-User", "OpenAI", "address:openai-chatgpt-user")
    assert (
        classifier.classify("curl/8.7.1", MARKDOWN, address=address_in_list("bing-bingbot")).kind is VisitorClass.SEARCH
    )
    assert classifier.classify(CHROME, address=ip_address("203.0.113.9").packed).kind is VisitorClass.HUMAN


def test_agent_name_confirmed_by_its_operators_address_is_kept(classifier: Classifier) -> None:
    found = classifier.classify("Google-NotebookLM", address=address_in_list("google-user-triggered-google"))
    assert (found.kind, found.agent) == (VisitorClass.ASSISTANT, "Google-NotebookLM")
    assert found.rule == "address:google-user-triggered-google"


def test_missing_user_agent_is_human_only_for_a_known_visitor(classifier: Classifier) -> None:
    assert classifier.classify(None, has_visitor_id=True).kind is VisitorClass.HUMAN
    assert classifier.classify(None).kind is VisitorClass.OTHER
    assert classifier.classify("-").kind is VisitorClass.OTHER


def test_crawler_list_is_not_consulted_for_browsers() -> None:
    asked: list[str] = []

    def opinion(agent: str) -> VisitorClass | None:
        asked.append(agent)
        return VisitorClass.SEARCH

    classifier = Classifier(load_agent_table(), IpRanges(), opinion)
    assert classifier.classify(CHROME).kind is VisitorClass.HUMAN
    assert classifier.classify("SomeEngine/1.0").rule == "list:crawler-user-agents"
    assert asked == ["SomeEngine/1.0"]


@pytest.mark.deep
def test_verdicts_are_cached_in_a_bounded_cache() -> None:
    asked: list[str] = []

    def opinion(agent: str) -> None:
        asked.append(agent)

    classifier = Classifier(load_agent_table(), IpRanges(), opinion)
    for _ in range(3):
        classifier.classify("Unknown/1.0")
    assert len(asked) == 1
    for n in range(MAX_CACHED_AGENTS + 1):
        classifier.classify(f"Unknown/2.{n}")
    classifier.classify("Unknown/1.0")
    assert asked.count("Unknown/1.0") == 2


@pytest.mark.parametrize(
    "accept", ["text/markdown", "text/html, text/markdown;q=0.5", "TEXT/X-MARKDOWN", "a/b,text/markdown"]
)
def test_accept_header_prefers_markdown(accept: str) -> None:
    assert normalize_markdown_accept(accept)


@pytest.mark.parametrize(
    "accept", [None, "", "*/*", "text/html,application/xhtml+xml,*/*;q=0.8", "text/markdownish", "x-text/markdown"]
)
def test_accept_header_does_not_prefer_markdown(accept: str | None) -> None:
    assert not normalize_markdown_accept(accept)


@given(
    st.text(max_size=300),
    st.none() | st.text(max_size=100),
    st.sampled_from(PageFormat),
    st.none() | st.binary(min_size=4, max_size=4),
)
def test_any_user_agent_gets_a_verdict(
    classifier: Classifier, agent: str, accept: str | None, form: PageFormat, address: bytes | None
) -> None:
    verdict = classifier.classify(agent, accept, form, address=address)
    assert verdict.kind in VisitorClass
    assert verdict.rule


@pytest.mark.parametrize(
    "piece",
    ["bot", "(", "; ", "Mozilla/5.0 (", "crawl", "Spider", "a-", "GPTBot-", "mozilla/5 ((((", "https:", "\u0130"],
)
def test_no_user_agent_takes_long_to_classify(piece: str, classifier: Classifier) -> None:
    agent = piece * (200_000 // len(piece))
    with limit_cpu(seconds=2):
        assert classifier.classify(agent).kind in VisitorClass
        assert normalize_markdown_accept(agent) == ""


@pytest.mark.parametrize(
    ("agent", "kind", "name"),
    [
        ("Agent-NovaAct/0.9", "assistant", "NovaAct"),
        (f"{CHROME} Agent-NovaAct/0.9", "assistant", "NovaAct"),
        ("Amazon-Bedrock-AgentCore-Browser/1.0", "assistant", "Amazon-Bedrock-AgentCore-Browser"),
        ("Aider/0.86.1 +https://aider.chat", "assistant", "Aider"),
        ("Zed/0.215.3 (linux; x86_64)", "assistant", "Zed"),
        ("codex_cli_rs/0.98.0", "assistant", "Codex"),
        ("claude-cli/2.1.0 (external, cli)", "assistant", "Claude Code"),
        ("FirecrawlAgent/1.0", "assistant", "FirecrawlAgent"),
        ("Diffbot-User/1.0", "assistant", "Diffbot-User"),
        ("Mozilla/5.0 (compatible; Diffbot/0.1)", "training", "Diffbot"),
        ("Mozilla/5.0 (compatible; xAI-SearchBot/1.0)", "search", "xAI-SearchBot"),
        ("Mozilla/5.0 (compatible; GrokBot/1.0)", "training", "GrokBot"),
        ("amazon-kendra-customer-id-123", "search", "amazon-kendra"),
        (f"{CHROME} DMBrowser-BV", "other", "DMBrowser-BV"),
        (f"{CHROME} PTST 2.386", "other", "PTST"),
        (f"{CHROME} NewRelicSynthetics/1.0", "other", "NewRelicSynthetics"),
        ("Mozilla/5.0 (X11; Linux x86_64) SomeNew Bot 1.1", "other", "Unnamed bot"),
    ],
)
def test_agents_seen_since_the_first_table_are_named(agent: str, kind: str, name: str, classifier: Classifier) -> None:
    found = classifier.classify(agent)
    assert (str(found.kind), found.agent) == (kind, name)


@pytest.mark.parametrize(
    "agent",
    [
        "Dalvik/2.1.0 (Linux; U; Android 14; Pixel 8 Build/UQ1A.240105.004)",
        "Docs/1 CFNetwork/1494.0.7 Darwin/23.4.0",
        "Mozilla/5.0 (X11; Linux x86_64; rv:128.0) Gecko/20100101 Thunderbird/128.3.0",
        "Mozilla/5.0 (compatible; Konqueror/3.1)",
        "Mozilla/5.0 (compatible; Konqueror/2.2.2)",
        "Mozilla/5.0",
        "Mozilla/5.0 (Windows NT 6.1; WOW64; Trident/7.0; rv:11.0; like Gecko; 2345Explorer)",
        CHROME.replace("like Gecko)", "like Gecko; googleweblight)"),
        "Mozilla/5.0 (Linux; Android 7.0; M bot 54) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/143.0.0.0",
    ],
)
def test_people_that_were_taken_for_bots_are_people(agent: str, classifier: Classifier) -> None:
    assert classifier.classify(agent).kind is VisitorClass.HUMAN


def test_browser_behind_the_proxy_of_google_is_a_person(classifier: Classifier) -> None:
    address = address_in_list("google-user-triggered-google")
    assert classifier.classify(CHROME, address=address).kind is VisitorClass.HUMAN
    assert classifier.classify("curl/8.7.1", address=address).rule == "address:google-user-triggered-google"
    agents = address_in_list("google-user-triggered-agents")
    assert classifier.classify(CHROME, address=agents).kind is VisitorClass.ASSISTANT


def test_claimed_signer_is_not_a_person(classifier: Classifier) -> None:
    known = classifier.classify(CHROME, signer=f"{CLAIM_PREFIX}eu.browserbase.com")
    assert known == Classification(
        VisitorClass.ASSISTANT, "Browserbase", "Browserbase", "signature-agent:browserbase.com"
    )
    for host in ("agent.example", "notbrowserbase.com", ""):
        unknown = classifier.classify(CHROME, signer=f"{CLAIM_PREFIX}{host}")
        assert (unknown.kind, unknown.rule) == (VisitorClass.OTHER, "signature-agent:unknown")
    assert classifier.classify(GPTBOT, signer=f"{CLAIM_PREFIX}agent.example").agent == "GPTBot"


def test_new_table_changes_the_class_of_rules_that_it_knows(classifier: Classifier) -> None:
    rows = [
        RuleRow("FirecrawlAgent", "Firecrawl", "training", "token:FirecrawlAgent", 3),
        RuleRow("CFNetwork", "Apple", "other", "token:CFNetwork", 2),
        RuleRow("GPTBot", "OpenAI", "training", "token:GPTBot", 5),
        RuleRow("ChatGPT-User", "OpenAI", "other", "address:openai-chatgpt-user", 1),
        RuleRow("Old agent", None, "other", "signature:chatgpt.com", 1),
        RuleRow("Gone", None, "other", "token:NoSuchToken", 1),
        RuleRow("Browser", None, "human", "browser", 9),
        RuleRow("Listed bot", None, "other", "list:crawler-user-agents", 4),
    ]
    changes = find_reclassifications(rows, classifier)
    assert [(change.rule, change.new_kind, change.new_agent) for change in changes] == [
        ("token:FirecrawlAgent", "assistant", "FirecrawlAgent"),
        ("token:CFNetwork", "human", "Browser"),
        ("address:openai-chatgpt-user", "assistant", "ChatGPT-User"),
        ("signature:chatgpt.com", "assistant", "ChatGPT agent"),
    ]
