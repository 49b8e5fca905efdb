"""Every documented form of a token is found, examples of documentation are not, and no text makes the search slow."""

import re
from collections import defaultdict
from itertools import count
from random import Random

import pytest

from copydesk.core.text.redaction import MASK
from copydesk.jobs.publish.guard.added_lines import FilesBefore, ProposedFile
from copydesk.jobs.publish.guard.secret_rules import PRIVATE_KEY_KIND, SECRET_RULES
from copydesk.jobs.publish.guard.secret_scanner import find_secret, redact_secrets
from tests.support.cpu_growth import Pump, assert_linear

HEX, UPPER, LOWER, DIGITS = "0123456789abcdef", "ABCDEFGHIJKLMNOPQRSTUVWXYZ", "abcdefghijklmnopqrstuvwxyz", "0123456789"
LETTERS = UPPER + LOWER
ALNUM = LETTERS + DIGITS
URL_SAFE = ALNUM + "_-"
SEEDS = count(1)


def draw(length: int, alphabet: str = ALNUM) -> str:
    """Returns random characters, the same ones in each run. The last is a letter or digit."""
    random = Random(next(SEEDS))
    text = "".join(random.choices(alphabet, k=length - 1))
    return text + random.choice([each for each in alphabet if each.isalnum()])


# The forms that the providers document. Built here, so that scanners of secrets do not report this file.
TOKENS = {
    "AWS access key": [f"{prefix}{draw(16, UPPER + '234567')}" for prefix in ("AKIA", "ASIA", "ABIA", "ACCA", "A3TX")],
    "AWS secret key": [
        f'aws_secret_access_key = "{draw(40, ALNUM + "/+")}"',
        f"AWS_SECRET_KEY: '{draw(40, ALNUM + '/+')}'",
        f'awsSessionToken="{draw(40)}"',
        f'"aws": {{"password": "{draw(40)}"',
    ],
    "Anthropic API key": [f"sk-ant-{name}-{draw(93, URL_SAFE)}AA" for name in ("api03", "admin01", "oat01")],
    "Azure storage key": [f"AccountKey={draw(86, ALNUM + '+/')}=="],
    "DigitalOcean token": [f"do{letter}_v1_{draw(64, HEX)}" for letter in "opr"],
    "GitHub token": [f"gh{letter}_{draw(36)}" for letter in "oprsu"] + [f"ghs_{draw(76)}"],
    "GitHub fine-grained token": [f"github_pat_{draw(22)}_{draw(59)}"],
    "GitLab token": [
        *(f"gl{name}-{draw(20, URL_SAFE)}" for name in ("pat", "dt", "rt", "rtr", "ptt", "ft", "wt", "soat", "ffct")),
        f"glpat-{draw(27, URL_SAFE)}.01.{draw(9, LOWER + DIGITS)}",
        f"gloas-{draw(64, HEX)}",
        f"glcbt-{draw(20, URL_SAFE)}",
        f"glcbt-64_{draw(20, URL_SAFE)}",
        f"glimt-{draw(25, LOWER + DIGITS)}",
        f"glptt-{draw(40, HEX)}",
        f"glagent-{draw(50, URL_SAFE)}",
    ],
    "GitLab runner registration token": [f"GR1348941{draw(20, URL_SAFE)}"],
    "Google API key": [f"AIza{draw(35, URL_SAFE)}"],
    "Google OAuth client secret": [f"GOCSPX-{draw(28, URL_SAFE)}"],
    "Hugging Face token": [f"hf_{draw(34, LETTERS)}", f"hf_{draw(34)}"],
    "npm token": [f"npm_{draw(36)}"],
    "OpenAI API key": [
        f"sk-{draw(20)}T3BlbkFJ{draw(20)}",
        *(f"sk-{name}-{draw(74, URL_SAFE)}T3BlbkFJ{draw(74, URL_SAFE)}" for name in ("proj", "svcacct", "admin")),
        f"sk-my-own-project-{draw(20)}T3BlbkFJ{draw(20)}",
        f"sk-proj-{draw(156, URL_SAFE)}",
    ],
    PRIVATE_KEY_KIND: [
        f"-----BEGIN {name}PRIVATE KEY{block}-----\n{draw(64)}\n{draw(64)}\n"
        for name, block in (
            *((name, "") for name in ("", "RSA ", "DSA ", "EC ", "OPENSSH ", "ENCRYPTED ", "SSH2 ENCRYPTED ")),
            ("PGP ", " BLOCK"),
        )
    ]
    + [f"PuTTY-User-Key-File-{version}: ssh-rsa\nEncryption: none\nPublic-Lines: 6\n{draw(64)}" for version in (2, 3)],
    "PyPI token": [f"pypi-AgEIcHlwaS5vcmc{draw(150, URL_SAFE)}", f"pypi-AgENdGVzdC5weXBpLm9yZw{draw(150, URL_SAFE)}"],
    "SendGrid API key": [f"SG.{draw(22, URL_SAFE)}.{draw(43, URL_SAFE)}"],
    "Slack token": [
        *(f"xox{letter}-{draw(12, DIGITS)}-{draw(13, DIGITS)}-{draw(24)}" for letter in "abopr"),
        f"xoxp-{draw(12, DIGITS)}-{draw(12, DIGITS)}-{draw(12, DIGITS)}-{draw(32, HEX)}",
        f"xoxe-1-{draw(146)}",
        f"xoxs-{draw(10, DIGITS)}-{draw(10)}",
        f"XOXB-{draw(12, DIGITS)}-{draw(24)}",
    ],
    "Slack app token": [f"xapp-1-A{draw(10, UPPER + DIGITS)}-{draw(13, DIGITS)}-{draw(64, HEX)}"],
    "Slack webhook": [f"https://hooks.slack.com/services/T{draw(8, UPPER)}/B{draw(8, UPPER)}/{draw(24)}"],
    "Square secret": [f"sq0csp-{draw(43, URL_SAFE)}", f"sq0atp-{draw(22, URL_SAFE)}"],
    "Stripe key": [f"{letter}k_live_{draw(length)}" for letter in "rs" for length in (24, 99)],
    "Telegram bot token": [f"{draw(length, DIGITS)}:{draw(35, URL_SAFE)}" for length in (8, 9, 10)],
    "Twilio API key": [f"{kind}{draw(32, HEX)}" for kind in ("AC", "SK")],
}
EXAMPLES_OF_DOCUMENTATION = (
    "AKIAIOSFODNN7" + "EXAMPLE",
    'aws_secret_access_key = "wJalrXUtnFEMI/K7MDENG/bPxRfiCY' + 'EXAMPLEKEY"',
    "ghp_" + "x" * 36,
    "github_pat_" + "0" * 22 + "_" + "0" * 59,
    "glpat-" + "xxxxxxxxxxxxxxxxxxxx",
    "xoxb-" + "123456789012-1234567890123-abcdefghijklmnopqrstuvwx",
    "https://hooks.slack.com/services/" + "T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX",
    "sk_test_" + "4eC39HqLyjWDarjtT1zdp7dc",
    "sk-proj-" + "your-key-your-key-your-key-your-key-your-key-your-key",
    "hf_" + "x" * 34,
    "SG." + "x" * 22 + "." + "x" * 43,
    "dop_v1_" + "0123456789abcdef" * 4,
    "110201543:" + "AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw"[:34],  # one character short of a token
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0NTY3ODkwIn0." + "dozjgNryP4J3jVmNHl0w5N_XgL0n3I9PlFUP0THsR8U",
    "https://user:hunter2@git.corp.net/docs.git",
    "-----BEGIN CERTIFICATE-----\n" + draw(64),
    "-----BEGIN RSA PRIVATE KEY-----\n<key>\n-----END RSA PRIVATE KEY-----",
    "password = correct-horse-battery-staple",
)


def find_kind(text: str) -> tuple[int, str] | None:
    return find_secret(ProposedFile("a.md", text.encode(), FilesBefore((("a.md", b""),))))


def test_every_rule_has_an_example_and_finds_it_as_a_whole() -> None:
    patterns = defaultdict(list)
    for rule in SECRET_RULES:
        patterns[rule.kind].append(re.compile(rule.pattern))
        assert any(re.search(rule.pattern, token) for token in TOKENS[rule.kind]), rule
    assert patterns.keys() == TOKENS.keys()
    for kind, tokens in TOKENS.items():
        for token in tokens:
            found = [match[0] for pattern in patterns[kind] for match in pattern.finditer(f"({token})")]
            assert token in found or kind in (PRIVATE_KEY_KIND, "AWS secret key"), (kind, token, found)


@pytest.mark.parametrize("around", ["{}", "key={}", '{{"token": "{}"}}', "`{}`", "https://a.example.net/?key={}&b=1"])
def test_each_documented_form_is_found_with_its_line_and_kind(around: str) -> None:
    for kind, tokens in TOKENS.items():
        for token in tokens:
            assert find_kind("A page.\n\n" + around.format(token)) == (3, kind), token


def test_each_documented_form_is_redacted_in_a_quoted_prompt() -> None:
    for kind in TOKENS.keys() - {PRIVATE_KEY_KIND}:
        for token in TOKENS[kind]:
            assert MASK in redact_secrets(f"Use {token}.", []), token
            assert token not in redact_secrets(f"Use {token}.", []), token


@pytest.mark.parametrize("line_end", ["\n", "\r\n", "\\n", " "])
def test_whole_private_key_is_redacted_in_a_quoted_prompt(line_end: str) -> None:
    lines = [draw(64), draw(64), draw(70), draw(24) + "=="]
    key = line_end.join(["-----BEGIN RSA PRIVATE KEY-----", *lines, "-----END RSA PRIVATE KEY-----"])
    redacted = redact_secrets(f"Mend the page about keys. {key} is ours.", [])
    assert [line for line in lines if line[:12] in redacted or line[-12:] in redacted] == []
    assert redacted.startswith("Mend the page about keys. ")
    assert redacted.endswith(" is ours.")


def test_examples_of_documentation_are_no_secrets() -> None:
    assert [text for text in EXAMPLES_OF_DOCUMENTATION if find_kind(text)] == []


def test_shortened_tokens_are_no_secrets() -> None:
    """Documentation writes tokens shortened, as `ghp_…`."""
    for tokens in TOKENS.values():
        for token in tokens:
            assert find_kind(f"It begins with {token[:10]}…, so keep it.") is None


@pytest.mark.deep
def test_each_rule_takes_linear_time_on_pieces_of_its_tokens() -> None:
    """A start of a token, repeated, is what makes a careless pattern look again and again."""
    for rule in SECRET_RULES:
        find = re.compile(rule.pattern).findall
        token = TOKENS[rule.kind][0]
        random = Random(rule.kind)
        cuts = (len(token) // 3, 2 * len(token) // 3, len(token) - 1, random.randrange(3, len(token)))
        for piece in (*(token[:cut] for cut in cuts), token[3:], token[-1]):
            assert_linear(find, Pump(piece, prefix=token[:3], suffix="!"), 4_000)
