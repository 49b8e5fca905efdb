"""Settings are validated at start, and the message names the variable."""

import pytest

from copydesk.core.settings import BadSettings, read_settings


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("COPYDESK_JOB_MINUTES", "soon"),
        ("COPYDESK_JOB_MINUTES", "0"),
        ("COPYDESK_DATABASE_URL", "mysql://localhost/x"),
        ("COPYDESK_BASE_URL", "docs.example.org"),
        ("COPYDESK_LOG_LEVEL", "loud"),
        ("COPYDESK_WORKER_SLOTS", "-1"),
        ("COPYDESK_EXTRA_KEY_PREFIXES", "mint"),
    ],
)
def test_invalid_setting_is_named(monkeypatch: pytest.MonkeyPatch, variable: str, value: str) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BadSettings, match=variable):
        read_settings()


def test_error_does_not_repeat_a_password(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPYDESK_DATABASE_URL", "mysql://u:s3cret@localhost/x")
    with pytest.raises(BadSettings) as refusal:
        read_settings()
    assert "s3cret" not in str(refusal.value)
    monkeypatch.setenv("COPYDESK_DATABASE_URL", "postgres://localhost/x")
    assert read_settings().resolved_database_url == "postgresql://localhost/x"


def test_trusted_proxies_are_separated_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COPYDESK_TRUSTED_PROXIES", "10.0.0.1, 192.168.0.0/16")
    assert read_settings().trusted_proxies == ("10.0.0.1", "192.168.0.0/16")
