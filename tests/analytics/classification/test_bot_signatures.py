"""Web Bot Auth, with real keys and real signatures."""

import base64
import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from http_message_signatures import HTTPMessageSigner, MappingKeyResolver, algorithms
from hypothesis import given
from hypothesis import strategies as st

from copydesk.analytics.classification.agent_table import Signer, load_agent_table
from copydesk.analytics.classification.bot_signatures import (
    InvalidKeyDirectory,
    KeyDirectory,
    SignedRequest,
    find_claimed_signer,
    parse_key_directory,
    thumbprint,
)
from copydesk.analytics.classification.classifier import CLAIM_PREFIX
from copydesk.analytics.page_view import VisitorClass

PRIVATE, STRANGER = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
URL = "https://docs.example.com/guide?x=1"


def encode_public_key(key: Ed25519PrivateKey) -> str:
    return base64.urlsafe_b64encode(key.public_key().public_bytes_raw()).rstrip(b"=").decode()


DIRECTORY = KeyDirectory(
    [
        Signer(
            "agent.example",
            "Agent",
            "Example",
            VisitorClass.ASSISTANT,
            "https://agent.example",
            "here",
            date(2026, 1, 1),
            (encode_public_key(PRIVATE),),
        )
    ]
)


def sign_request(
    key: Ed25519PrivateKey = PRIVATE,
    tag: str = "web-bot-auth",
    covered: tuple[str, ...] = ("@authority", "signature-agent"),
    age: timedelta = timedelta(),
    lasts: timedelta | None = timedelta(minutes=5),
    agent: str = '"https://agent.example"',
    key_id: str = "",
) -> dict[str, str]:
    headers = {"signature-agent": agent, "user-agent": "Mozilla/5.0"}
    name = key_id or thumbprint(encode_public_key(key))
    signer = HTTPMessageSigner(
        signature_algorithm=algorithms.ED25519,
        key_resolver=MappingKeyResolver(public_keys={}, private_keys={name: key}),
    )
    created = datetime.now(UTC) - age
    expires = created + lasts if lasts is not None else None
    signer.sign(
        SignedRequest("GET", URL, headers),
        key_id=name,
        tag=tag,
        covered_component_ids=covered,
        created=created,
        expires=expires,
    )
    return {name.lower(): value for name, value in headers.items()}


def test_valid_signature_identifies_its_signer() -> None:
    assert DIRECTORY.find_signer("GET", URL, sign_request()) == "agent.example"


def test_signature_agent_header_in_dictionary_form_is_parsed() -> None:
    headers = sign_request(agent='sig1="https://agent.example"', covered=("@authority", '"signature-agent";key="sig1"'))
    assert DIRECTORY.find_signer("GET", URL, headers) == "agent.example"


def test_signer_is_the_owner_of_the_key_not_the_claimed_agent() -> None:
    assert DIRECTORY.find_signer("GET", URL, sign_request(agent='"https://chatgpt.com"')) == "agent.example"


def test_signature_with_unknown_key_has_no_signer() -> None:
    assert DIRECTORY.find_signer("GET", URL, sign_request(STRANGER)) is None
    assert (
        DIRECTORY.find_signer("GET", URL, sign_request(STRANGER, key_id=thumbprint(encode_public_key(PRIVATE)))) is None
    )


@pytest.mark.parametrize(
    "options",
    [
        {"tag": "another"},
        {"age": timedelta(minutes=10)},
        {"age": timedelta(days=3), "lasts": timedelta(days=9)},
        {"age": timedelta(minutes=-10)},
        {"lasts": None},
        {"covered": ("signature-agent",)},
    ],
    ids=["another tag", "expired", "too old", "from the future", "for ever", "for any host"],
)
def test_signature_for_another_host_or_time_has_no_signer(options: dict[str, Any]) -> None:
    headers = sign_request(**options)  # signed here, because tests may run many minutes after they are collected
    assert DIRECTORY.find_signer("GET", URL, headers) is None


def test_unsigned_request_has_no_signer() -> None:
    assert DIRECTORY.find_signer("GET", URL, {}) is None


def test_tampered_request_has_no_signer() -> None:
    headers = sign_request()
    assert DIRECTORY.find_signer("GET", "https://other.example.com/guide?x=1", headers) is None
    assert DIRECTORY.find_signer("GET", URL, headers | {"signature-agent": '"https://other.example"'}) is None


@given(st.dictionaries(st.sampled_from(["signature", "signature-input", "signature-agent"]), st.text()), st.text())
def test_malformed_signature_has_no_signer(headers: dict[str, str], url: str) -> None:
    headers["signature-input"] = headers.get("signature-input", "") + ';tag="web-bot-auth"'
    assert DIRECTORY.find_signer("GET", url, headers) is None


@given(st.sampled_from(["signature", "signature-input"]), st.integers(0, 200), st.characters())
def test_changing_one_character_never_yields_another_signer(name: str, place: int, letter: str) -> None:
    headers = dict(sign_request())
    text = headers[name]
    headers[name] = text[:place] + letter + text[place + 1 :]
    assert DIRECTORY.find_signer("GET", URL, headers) in (None, "agent.example")


def test_chatgpt_key_is_listed_under_chatgpt_com() -> None:
    [chatgpt] = [signer for signer in load_agent_table().signers if signer.host == "chatgpt.com"]
    assert "otMqcjr17mGyruktGvJU8oojQTSMHlVm7uO-lrcqbdg" in map(thumbprint, chatgpt.keys)
    assert KeyDirectory(load_agent_table().signers)


def test_published_key_directory_is_parsed() -> None:
    jwks = {
        "keys": [
            {"kty": "OKP", "crv": "Ed25519", "x": encode_public_key(PRIVATE), "use": "sig"},
            {"kty": "RSA", "n": "x"},
        ]
    }
    assert parse_key_directory(json.dumps(jwks).encode()) == (encode_public_key(PRIVATE),)


@given(st.binary() | st.text().map(lambda x: json.dumps({"keys": [{"crv": "Ed25519", "x": x}]}).encode()))
def test_malformed_key_directory_is_refused(payload: bytes) -> None:
    with pytest.raises(InvalidKeyDirectory, match="not a directory of signing keys"):
        parse_key_directory(payload)


@pytest.mark.parametrize(
    ("agent", "host"),
    [
        ('"https://chatgpt.com"', "chatgpt.com"),
        ('g="https://agent.bot.goog"', "agent.bot.goog"),
        ("https://Bot.DuckDuckGo.com/x", "bot.duckduckgo.com"),
        ("", ""),
        ("nonsense", ""),
    ],
)
def test_claimed_signer_is_read_from_every_form_of_the_header(agent: str, host: str) -> None:
    signed = {"signature-input": 'sig=();tag="web-bot-auth"', "signature": "sig=:AA==:", "signature-agent": agent}
    assert find_claimed_signer(signed) == f"{CLAIM_PREFIX}{host}"
    assert find_claimed_signer({"signature-agent": agent}) is None
