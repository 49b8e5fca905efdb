"""Every setting, read once at start from the environment and checked there and then."""

from collections.abc import Sequence
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from copydesk.core.errors import UserFacingError

ENV_PREFIX = "COPYDESK_"


class BadSettings(UserFacingError):
    """A setting is wrong; the message names its variable."""


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="ignore")

    data: Path = Path("./copydesk-data")
    """Folder of everything embedded: the database, the mirrors of repositories."""
    database_url: str = ""
    """Projects, keys and jobs: empty for SQLite in the data folder, or `postgresql://…` for several machines."""
    analytics_url: str = Field("", repr=False)
    """Views: empty for DuckDB in the data folder, or `clickhouse://user:password@host:8123/database` for several
    machines; `?secure=1` for TLS, `&cluster=…` for the name of a cluster."""
    base_url: str = "http://127.0.0.1:8080"
    """The service's address as users reach it; links begin with it."""
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """Addresses or networks, with commas between, whose `X-Forwarded-For` names the caller."""
    secret_key: Annotated[tuple[str, ...], NoDecode] = Field((), repr=False)
    """32 bytes in base64 that seal secrets, older ones after a comma; empty for a file in the data folder."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged."""
    log_format: Literal["text", "json"] = "text"
    """How it is logged: `text` for a person, or `json`, one object on each line, for a program."""
    log_requests: bool = False
    """Whether each request is logged when it is answered: its kind, status and time, and nothing of who asked."""
    drain_seconds: float = Field(0, ge=0, le=3600)
    """For so long a stopping server still answers while `/readyz` says 503, and a stopping worker ends its jobs."""
    connections_per_address: int = Field(1024, ge=0)
    """Connections that one address may have open; 0 for no limit. Trusted proxies are not counted."""
    header_seconds: float = Field(10, gt=0, le=3600)
    """Seconds in which the headers of a request must arrive."""
    body_seconds: float = Field(30, gt=0, le=3600)
    """Seconds in which the body of a request must arrive, and one more for every 32 KiB of it."""
    body_memory_megabytes: int = Field(128, ge=16)
    """MiB that the bodies of all requests under way may take together; the first 64 KiB of each are not counted."""
    streams: int = Field(1000, ge=1)
    """Live streams of events that one server holds at once."""
    streams_per_key: int = Field(100, ge=1)
    """Live streams of events that one API key, or one person in the dashboard, may have open on one server."""
    metrics_host: str = "127.0.0.1"
    """The address that `copydesk work` answers `/healthz`, `/readyz` and `/metrics` on, and `serve --metrics-port`."""
    metrics_port: int = Field(0, ge=0, le=65535)
    """The worker's port for that; 0 for none."""

    oidc_issuer: str = ""
    """An OpenID Connect provider that people may sign in with, as it names itself: `https://login.example.org`."""
    oidc_client_id: str = ""
    """What Copydesk is called there; its redirect address is `{base_url}/sign-in/oidc/back`."""
    oidc_client_secret: str = Field("", repr=False)
    """The secret that the provider gave Copydesk."""
    oidc_domains: Annotated[tuple[str, ...], NoDecode] = ()
    """Domains of e-mail addresses whose people come in without an invitation, with commas between."""
    oidc_role: Literal["viewer", "editor", "admin"] = "viewer"
    """The role of those who come in so."""

    model: str = "mechanic"
    """The model that does the jobs: `mechanic`, `openai:…`, `anthropic:…`, `google:…` or `openai-compatible:…`."""
    models: Annotated[tuple[str, ...], NoDecode] = ()
    """Further models that a job may ask for by name, with commas between."""
    model_url: str | None = None
    """The address of an `openai-compatible:…` model."""
    model_window: int = Field(128_000, ge=8_000)
    """Tokens that a request to a model may carry; a model that is known to take fewer gets fewer."""
    job_minutes: float = Field(30, gt=0)
    """Wall time after which a job ends with `timed_out`."""
    job_requests: int = Field(60, ge=1)
    """Model requests after which a job ends with `budget_exceeded`."""
    job_tokens: int = Field(2_000_000, ge=1)
    """Input and output tokens, added up, after which a job ends with `budget_exceeded`."""
    job_cost_usd: float = Field(10, gt=0)
    """Cost, where the model's price is known, after which a job ends with `budget_exceeded`."""
    call_cpu_seconds: int = Field(60, ge=1)
    """CPU time that a check, a tool or a turn of the mechanic may take on a repository's text before it is stopped."""
    call_memory_megabytes: int = Field(2048, ge=256)
    """Memory, in MiB, that it may take."""
    check_tools: Annotated[tuple[str, ...], NoDecode] = ()
    """Folders that check commands may read beside the system's own, with commas between: where their programs are."""
    repository_files: int = Field(200_000, ge=1)
    """Files and folders that a repository may have; a job on a larger one fails."""
    repository_depth: int = Field(100, ge=1, le=500)
    """Folders inside each other that a repository may have; a job on a deeper one fails."""
    repository_file_megabytes: int = Field(64, ge=1, le=2000)
    """Size in MiB of the largest file that a job can read; larger ones are listed, and otherwise left alone."""
    repository_megabytes: int = Field(4096, ge=1)
    """MiB that the mirror of one repository may take on disk; a fetch that would take more is stopped."""
    git_megabytes: int = Field(2048, ge=64)
    """MiB of memory that one git command may take."""
    jobs_per_hour: int = Field(100, ge=1)
    """Creations and messages per project and hour."""
    keys_per_hour: int = Field(10, ge=1)
    """API keys made per project and hour."""
    exports_per_minute: int = Field(600, ge=1)
    """Analytics exports per project and minute."""
    collect_per_minute: int = Field(60_000, ge=1)
    """Views that browsers may send per site and minute."""
    collect_per_address: int = Field(600, ge=1)
    """Views that browsers may send per address and minute."""
    feedback_per_address: int = Field(30, ge=1)
    """Feedback that browsers may send per address and hour."""
    feedback_per_day: int = Field(5_000, ge=1)
    """Feedback that is accepted per project and day."""
    feedback_entries: int = Field(100_000, ge=1)
    """Feedback entries that a project may hold; further ones are refused."""
    feedback_megabytes: int = Field(100, ge=1)
    """Megabytes of feedback that a project may hold; more is refused."""

    worker_slots: int = Field(4, ge=1, le=64)
    """Jobs that one worker runs at once."""
    project_slots: int = Field(4, ge=1)
    """Jobs of one project that run at once, over all workers."""
    total_slots: int = Field(1000, ge=1)
    """Jobs that run at once, over all projects and workers."""
    lease_seconds: float = Field(10, gt=0)
    """How long a worker's claim on a job lasts without a heartbeat; after that another worker takes it over."""
    most_attempts: int = Field(5, ge=1)
    """How often a job is taken up again after its worker died before it ends as failed."""
    archive_days: float = Field(30, gt=0)
    """A job that ended this long ago is archived."""

    @field_validator("trusted_proxies", "models", "secret_key", "check_tools", "oidc_domains", mode="before")
    @classmethod
    def _split_commas(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("trusted_proxies")
    @classmethod
    def _validate_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ip_network(network, strict=False)
        return value

    @field_validator("base_url")
    @classmethod
    def _validate_base_url(cls, value: str) -> str:
        if not value.startswith(("http://", "https://")):
            raise ValueError("must begin with http:// or https://")
        return value.rstrip("/")

    @field_validator("oidc_issuer")
    @classmethod
    def _validate_issuer(cls, value: str) -> str:
        """Whoever can change what a provider says can be anybody, so it is heard over TLS, or from this machine."""
        parts = urlsplit(value)
        is_local = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
        if value and not (parts.hostname and (parts.scheme == "https" or is_local)):
            raise ValueError("must begin with https://")
        return value

    @field_validator("oidc_domains")
    @classmethod
    def _normalize_domains(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(domain.lower().removeprefix("@") for domain in value)

    @model_validator(mode="after")
    def _validate_oidc(self) -> Self:
        if self.oidc_issuer and not (self.oidc_client_id and self.oidc_client_secret):
            raise ValueError("COPYDESK_OIDC_ISSUER needs COPYDESK_OIDC_CLIENT_ID and COPYDESK_OIDC_CLIENT_SECRET too")
        return self

    @field_validator("database_url")
    @classmethod
    def _validate_database_url(cls, value: str) -> str:
        if value.startswith("postgres://"):
            value = value.replace("postgres://", "postgresql://", 1)
        if value and not value.startswith(("sqlite:///", "postgresql://")):
            raise ValueError("must begin with sqlite:/// or postgresql://")
        return value

    @field_validator("analytics_url")
    @classmethod
    def _validate_analytics_url(cls, value: str) -> str:
        if value and not value.startswith("clickhouse://"):
            raise ValueError("must begin with clickhouse://")
        return value

    @property
    def resolved_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data.absolute() / 'copydesk.db'}"

    def make_data_folder(self) -> None:
        """It holds prompts and diffs: its owner's alone."""
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)

    @property
    def mirrors_folder(self) -> Path:
        return self.data.absolute() / "mirrors"


def env_variable(field: str) -> str:
    return ENV_PREFIX + field.upper()


def read_settings(**overrides: Any) -> Settings:
    """The settings of the environment; BadSettings names the variable that is wrong."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise BadSettings("; ".join(_describe_error(e["loc"], e["msg"], e["input"]) for e in error.errors())) from None


def _describe_error(location: Sequence[int | str], message: str, value: Any) -> str:
    """What is wrong with which variable; what may hold a password is not repeated."""
    if not location:
        return message.removeprefix("Value error, ")
    field = str(location[0])
    may_show_value = not field.endswith(("_url", "_key", "_secret"))
    return f"{env_variable(field)}: {message}" + (f" (it is {value!r})" if may_show_value else "")
