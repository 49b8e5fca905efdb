"""All settings, read from the environment and validated once at start."""

import re
from collections.abc import Collection, Iterable, Sequence
from difflib import get_close_matches
from ipaddress import ip_network
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from copydesk.core.errors import DataFolderMissing, UserFacingError

ENV_PREFIX = "COPYDESK_"
OTHER_VARIABLES = (
    "COPYDESK_URL",
    "COPYDESK_API_KEY",
    "COPYDESK_PROJECT",
    "COPYDESK_MODEL_KEY",
    "COPYDESK_TO_DATABASE_URL",
    "COPYDESK_TO_ANALYTICS_URL",
)
"""Variables that are not settings of the service: those of the client, of a model's key and of a migration."""
CHOOSE_FOLDER_HINT = "Change to the folder where the service runs"
KEY_PREFIX_PATTERN = re.compile(r"[A-Za-z][A-Za-z0-9]{1,19}_")


class BadSettings(UserFacingError):
    """An invalid setting. The message names its environment variable."""


class Settings(BaseSettings):
    model_config = SettingsConfigDict(env_prefix=ENV_PREFIX, frozen=True, extra="ignore")

    data: Path = Path("./copydesk-data")
    """The data folder, with everything embedded: the database and the mirrors of repositories."""
    database_url: str = ""
    """Where projects, keys and jobs are stored: empty for SQLite in the data folder, `sqlite:///…` for another file, or
    `postgresql://…` for several machines."""
    analytics_url: str = Field("", repr=False)
    """Where page views are stored: empty for DuckDB in the data folder, or
    `clickhouse://user:password@host:8123/database` for several machines. Add `?secure=1` for TLS, `&cluster=…` for the
    name of a cluster."""
    base_url: str = "http://127.0.0.1:8080"
    """The URL at which users reach the service. Links begin with it."""
    mcp_hosts: Annotated[tuple[str, ...], NoDecode] = ()
    """Other host names, separated by commas, under which clients of MCP reach `/mcp`; that of the base URL is known."""
    trusted_proxies: Annotated[tuple[str, ...], NoDecode] = ()
    """IP addresses or networks of your proxies, separated by commas. The caller's address is read from their
    `X-Forwarded-For`."""
    secret_key: Annotated[tuple[str, ...], NoDecode] = Field((), repr=False)
    """32 bytes in base64 that encrypt the projects' secrets. Older keys can follow, separated by commas, to decrypt
    what they encrypted. If empty, the file `secret.key` in the data folder is used."""
    log_level: Literal["debug", "info", "warning", "error"] = "info"
    """How much is logged."""
    log_format: Literal["text", "json"] = "text"
    """The log format: `text` for people, or `json`, one object per line, for programs."""
    log_requests: bool = False
    """Log each request after its response: its kind, status and duration, and nothing about the caller."""
    drain_seconds: float = Field(0, ge=0, le=3600)
    """How long a stopping server keeps answering, while `/readyz` returns 503, and how long a stopping worker may
    finish its running jobs."""
    connections_per_address: int = Field(1024, ge=0)
    """Connections that one IP address may have open; 0 for no limit. Trusted proxies are not counted."""
    header_seconds: float = Field(10, gt=0, le=3600)
    """Seconds within which the headers of a request must arrive."""
    body_seconds: float = Field(30, gt=0, le=3600)
    """Seconds within which the body of a request must arrive, plus one second for every 32 KiB of it."""
    body_memory_megabytes: int = Field(128, ge=16)
    """MiB that the bodies of all open requests may use together; the first 64 KiB of each are not counted."""
    streams: int = Field(1000, ge=1)
    """Live streams of events that may be open on one server."""
    streams_per_key: int = Field(100, ge=1)
    """Live streams of events that one API key, or one person in the dashboard, may have open on one server."""
    metrics_host: str = "127.0.0.1"
    """The address on which `copydesk work` serves `/healthz`, `/readyz` and `/metrics`; also used by
    `serve --metrics-port`."""
    metrics_port: int = Field(0, ge=0, le=65535)
    """The port on which `copydesk work` serves them; 0 for none."""

    oidc_issuer: str = ""
    """The issuer URL of the OpenID Connect provider that people sign in with, such as `https://login.example.org`."""
    oidc_client_id: str = ""
    """The client ID of Copydesk at the provider. The redirect URL is `{base_url}/sign-in/oidc/back`."""
    oidc_client_secret: str = Field("", repr=False)
    """The client secret that the provider gave Copydesk."""
    oidc_domains: Annotated[tuple[str, ...], NoDecode] = ()
    """Email domains whose people can sign in without an invitation, separated by commas."""
    oidc_role: Literal["none", "viewer", "editor", "admin"] = "viewer"
    """The role in all projects of people who sign in without an invitation; `none` for single projects only."""

    smtp_host: str = ""
    """The mail server. If empty, Copydesk sends no mail."""
    smtp_port: int = Field(0, ge=0, le=65535)
    """Its port; 0 for the usual one of the TLS mode: 587, 465 or 25."""
    smtp_tls: Literal["starttls", "tls", "none"] = "starttls"
    """How the connection is encrypted. With `starttls`, a server that does not offer it gets no mail."""
    smtp_user: str = ""
    """The user name at the mail server; empty for no login."""
    smtp_password: str = Field("", repr=False)
    """The password of that user."""
    smtp_from: str = ""
    """The sender of mails, such as `Copydesk <copydesk@example.org>`."""

    model: str = "mechanic"
    """The default model for jobs: `mechanic`, `openai:…`, `anthropic:…`, `google:…` or `openai-compatible:…`."""
    models: Annotated[tuple[str, ...], NoDecode] = ()
    """Other models that a job may choose by name, separated by commas."""
    model_aliases: Annotated[tuple[str, ...], NoDecode] = ()
    """Models that a job of version 1 gets for a name, separated by commas, such as
    `sonnet=anthropic:claude-sonnet-4-5`."""
    model_url: str | None = None
    """The URL of an `openai-compatible:…` model."""
    model_window: int = Field(128_000, ge=8_000)
    """The maximum number of tokens in a request to a model. If a model is known to accept fewer, it gets fewer."""
    job_minutes: float = Field(30, gt=0)
    """Wall-clock time after which a run ends with `timed_out`."""
    job_requests: int = Field(60, ge=1)
    """Model requests, over all runs of a job, after which it ends with `budget_exceeded`."""
    job_tokens: int = Field(2_000_000, ge=1)
    """Input and output tokens together, over all runs of a job, after which it ends with `budget_exceeded`."""
    job_cost_usd: float = Field(10, gt=0)
    """Cost over all runs of a job, if the model's price is known, after which it ends with `budget_exceeded`."""
    call_cpu_seconds: int = Field(60, ge=1)
    """CPU time that one check, tool call or turn of the mechanic may use. It runs in a child process, which is stopped
    after that, or after five times as long (at least a minute) if it only waits."""
    call_memory_megabytes: int = Field(2048, ge=256)
    """Memory, in MiB, that such a child process may use."""
    check_tools: Annotated[tuple[str, ...], NoDecode] = ()
    """Folders that check commands may read in addition to the system's own, separated by commas: the folders of their
    programs."""
    repository_files: int = Field(200_000, ge=1)
    """Files and folders that a repository may have; a job on a larger repository fails."""
    repository_depth: int = Field(100, ge=1, le=500)
    """Levels of nested folders that a repository may have; a job on a deeper repository fails."""
    repository_file_megabytes: int = Field(64, ge=1, le=2000)
    """Size in MiB of the largest file that a job can read; larger files are listed but not read or
    changed."""
    repository_megabytes: int = Field(4096, ge=1)
    """MiB that the mirror of one repository may use on disk; a fetch that would use more is stopped."""
    git_megabytes: int = Field(2048, ge=64)
    """MiB of memory that one git command may use."""
    jobs_per_hour: int = Field(100, ge=1)
    """Job creations and messages per project and hour."""
    extra_key_prefixes: Annotated[tuple[str, ...], NoDecode] = ()
    """Prefixes besides `desk_` that API keys may have, such as `mint_`, separated by commas. For clients that check the
    prefix, and for keys that you import."""
    keys_per_hour: int = Field(10, ge=1)
    """API keys that can be created per project and hour."""
    exports_per_minute: int = Field(600, ge=1)
    """Analytics exports per project and minute."""
    collect_per_minute: int = Field(60_000, ge=1)
    """Views that browsers may send per site and minute."""
    collect_per_address: int = Field(600, ge=1)
    """Views that browsers may send per IP address and minute."""
    share_per_address: int = Field(120, ge=1)
    """Requests for shared pages and badges per IP address and minute."""
    feedback_per_address: int = Field(30, ge=1)
    """Feedback entries that browsers may send per IP address and hour."""
    feedback_per_day: int = Field(5_000, ge=1)
    """Feedback entries that a project accepts per day."""
    feedback_entries: int = Field(100_000, ge=1)
    """Feedback entries that a project may store; further ones are refused."""
    feedback_megabytes: int = Field(100, ge=1)
    """Megabytes of feedback that a project may store; more is refused."""
    search_entries: int = Field(1_000_000, ge=1)
    """Searches that a project may store; further ones are refused."""
    search_megabytes: int = Field(200, ge=1)
    """Megabytes of searches that a project may store; more is refused."""
    conversation_entries: int = Field(1_000_000, ge=1)
    """Questions to an assistant that a project may store; further ones are refused."""
    conversation_megabytes: int = Field(1_000, ge=1)
    """Megabytes of questions and answers that a project may store; more is refused."""

    worker_slots: int = Field(4, ge=1, le=64)
    """Jobs that one worker runs at the same time."""
    project_slots: int = Field(4, ge=1)
    """Jobs of one project that run at the same time, over all workers."""
    total_slots: int = Field(1000, ge=1)
    """Jobs that run at the same time, over all projects and workers."""
    lease_seconds: float = Field(10, gt=0)
    """How long a worker's lease on a job lasts without a heartbeat. After that, another worker takes the job over."""
    max_attempts: int = Field(5, ge=1)
    """The maximum number of attempts. If the worker dies in each of them, the job ends as failed."""
    archive_days: float = Field(30, gt=0)
    """Days after which a job that has ended is archived."""
    watch_minutes: float = Field(2, gt=0, le=1440)
    """Minutes between two looks at the repositories that automations watch."""
    quiet_minutes: float = Field(10, ge=0, le=1440)
    """Minutes without a new commit after which a change of a watched repository starts a run, so that a burst of
    commits starts one."""
    review_reminder_days: int = Field(14, ge=0, le=3650)
    """Days after which an automation's pull request that nobody touched is mentioned, once; 0 for never."""
    webhook_allow_private: bool = False
    """Allow webhooks to private addresses, such as receivers in your own network, and to `http://` URLs."""
    webhook_slots: int = Field(64, ge=1, le=1000)
    """Webhook deliveries that one worker sends at the same time. One endpoint gets at most 8 of them."""
    webhook_log_days: int = Field(30, ge=1, le=3650)
    """Days for which ended webhook deliveries stay in the log."""

    @field_validator(
        "mcp_hosts",
        "trusted_proxies",
        "models",
        "secret_key",
        "check_tools",
        "oidc_domains",
        "extra_key_prefixes",
        "model_aliases",
        mode="before",
    )
    @classmethod
    def _split_commas(cls, value: Any) -> Any:
        return tuple(part.strip() for part in value.split(",") if part.strip()) if isinstance(value, str) else value

    @field_validator("trusted_proxies")
    @classmethod
    def _validate_networks(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for network in value:
            ip_network(network, strict=False)
        return value

    @field_validator("extra_key_prefixes")
    @classmethod
    def _validate_key_prefixes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for prefix in value:
            if not KEY_PREFIX_PATTERN.fullmatch(prefix):
                raise ValueError("each must be 2 to 20 letters and digits and an underscore, such as mint_")
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
        """Requires TLS, except for a provider on this machine.

        An attacker who can change a provider's responses can sign in as anyone.
        """
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
    def _validate_groups(self) -> Self:
        if self.oidc_issuer and not (self.oidc_client_id and self.oidc_client_secret):
            raise ValueError("COPYDESK_OIDC_ISSUER also needs COPYDESK_OIDC_CLIENT_ID and COPYDESK_OIDC_CLIENT_SECRET")
        if self.smtp_host and not re.search(r"[^\s@<>]@[^\s@<>]", self.smtp_from):
            raise ValueError("COPYDESK_SMTP_HOST also needs COPYDESK_SMTP_FROM, the address that sends the mails")
        if self.smtp_password and self.smtp_tls == "none" and self.smtp_host not in ("127.0.0.1", "::1", "localhost"):
            raise ValueError("COPYDESK_SMTP_PASSWORD must not be sent without TLS: change COPYDESK_SMTP_TLS")
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

    @field_validator("model_aliases")
    @classmethod
    def _validate_aliases(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for alias in value:
            name, separator, model = alias.partition("=")
            if not (name.strip() and separator and model.strip()):
                raise ValueError("each must be a name and a model, such as sonnet=anthropic:claude-sonnet-4-5")
        return value

    @property
    def models_by_alias(self) -> dict[str, str]:
        pairs = (alias.partition("=") for alias in self.model_aliases)
        return {name.strip(): model.strip() for name, _, model in pairs}

    @property
    def resolved_database_url(self) -> str:
        return self.database_url or f"sqlite:///{self.data.absolute() / 'copydesk.db'}"

    def make_data_folder(self) -> None:
        """Creates the data folder with access for its owner only, since it holds prompts and diffs."""
        self.data.mkdir(mode=0o700, parents=True, exist_ok=True)

    def require_data_folder(self) -> Path:
        """Returns the absolute path of the data folder. Raises DataFolderMissing if it does not exist."""
        folder = self.data.absolute()
        if not folder.is_dir():
            raise DataFolderMissing(
                f"There is no data folder {folder}. {CHOOSE_FOLDER_HINT}, or set COPYDESK_DATA to its data folder."
            )
        return folder

    def require_database(self) -> None:
        """Raises DataFolderMissing if a SQLite database does not exist, because connecting would create it."""
        file = self.database_file
        if file is None or file.exists():
            return
        if self.database_url:
            raise DataFolderMissing(f"There is no database {file}. Check COPYDESK_DATABASE_URL.")
        raise DataFolderMissing(
            f"There is no Copydesk data in {self.data.absolute()}. {CHOOSE_FOLDER_HINT}, or set COPYDESK_DATA to its "
            "data folder. 'copydesk project create' creates a new one."
        )

    @property
    def database_file(self) -> Path | None:
        """The file of the SQLite database; None for PostgreSQL."""
        prefix, _, path = self.resolved_database_url.partition("sqlite:///")
        return Path(path.partition("?")[0]) if path and not prefix else None

    @property
    def database_location(self) -> str:
        """Where projects are stored, for messages: the data folder, the SQLite file, or the URL without its login."""
        if not self.database_url:
            return str(self.data.absolute())
        if self.database_file is not None:
            return str(self.database_file)
        parts = urlsplit(self.database_url)
        return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"

    @property
    def mirrors_folder(self) -> Path:
        return self.data.absolute() / "mirrors"


def env_variable(field: str) -> str:
    return ENV_PREFIX + field.upper()


def read_settings(**overrides: Any) -> Settings:
    """Reads the settings from the environment. Raises BadSettings, which names each invalid variable."""
    try:
        return Settings(**overrides)
    except ValidationError as error:
        raise BadSettings("; ".join(_describe_error(e["loc"], e["msg"], e["input"]) for e in error.errors())) from None


def find_unknown_variables(names: Iterable[str], known: Collection[str] = ()) -> dict[str, str | None]:
    """Returns the names that begin with COPYDESK_ and that nothing reads, each with the nearest known name, or None.

    `known` are more names that something reads, such as the token variables of projects.
    """
    current_names = [*map(env_variable, Settings.model_fields), *OTHER_VARIABLES]
    read_names = {*current_names, *known}
    unknown = sorted(name for name in names if name.startswith(ENV_PREFIX) and name not in read_names)
    return {name: _find_nearest_variable(name, current_names) for name in unknown}


def _find_nearest_variable(name: str, known_names: Iterable[str]) -> str | None:
    """Returns the known name that is most similar. Compares without the prefix, which would make all names similar."""
    known_endings = [known.removeprefix(ENV_PREFIX) for known in known_names]
    nearest = get_close_matches(name.removeprefix(ENV_PREFIX), known_endings, n=1)
    return f"{ENV_PREFIX}{nearest[0]}" if nearest else None


def _describe_error(location: Sequence[int | str], message: str, value: Any) -> str:
    """Describes an error and its variable. Leaves out values that may contain a password."""
    if not location:
        return message.removeprefix("Value error, ")
    field = str(location[0])
    may_show_value = not field.endswith(("_url", "_key", "_secret", "_password"))
    return f"{env_variable(field)}: {message}" + (f" (got {value!r})" if may_show_value else "")
