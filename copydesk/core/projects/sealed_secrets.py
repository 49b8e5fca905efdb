"""A project's sealed secrets: forge tokens and model keys, encrypted at rest and never shown again."""

import base64
import binascii
import os
import secrets as randomness
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy import delete, insert, select
from sqlalchemy.exc import IntegrityError

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.db.tables import secrets
from copydesk.core.errors import InvalidRequest, NotFound, RequestError
from copydesk.core.settings import BadSettings, Settings

KNOWN_SECRETS = {
    "forge_token": "the token that reads and pushes the repository and opens pull requests",
    "app_key": "the private key (PEM) of the GitHub App",
    "webhook_secret": "what the forge signs its webhooks with",
    "model_key_openai": "the OpenAI key of this project's jobs",
    "model_key_anthropic": "the Anthropic key of this project's jobs",
    "model_key_google": "the Google key of this project's jobs",
    "model_key_compatible": "the key of the OpenAI-compatible address",
}
MAX_SECRET_CHARS = 20_000
NONCE_BYTES = 12


class CannotUnseal(RequestError):
    """A sealed secret cannot be opened with this key; the message says what to do."""

    status, code = 503, "cannot_unseal"
    message = "A stored secret cannot be decrypted with this key."


class SealedSecrets:
    """AES-256-GCM, bound to project and name, so that no row can be passed off as another's."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database, self.settings = database, settings

    def get(self, project_id: str, name: str) -> str | None:
        return self.all(project_id).get(name)

    def all(self, project_id: str) -> dict[str, str]:
        """Every secret of the project, by name."""
        with self.database.read() as tx:
            rows = tx.execute(select(secrets.c.name, secrets.c.sealed).where(secrets.c.project_id == project_id)).all()
        return {row.name: self._decrypt(project_id, row.name, row.sealed) for row in rows}

    def read_update_times(self, project_id: str) -> dict[str, int]:
        """Which of a person's there are, and when each was set."""
        query = select(secrets.c.name, secrets.c.updated_at).where(
            secrets.c.project_id == project_id, secrets.c.name.in_(KNOWN_SECRETS)
        )
        with self.database.read() as tx:
            return {row.name: row.updated_at for row in tx.execute(query.order_by(secrets.c.name))}

    @staticmethod
    def validate_name(name: str) -> str:
        if name not in KNOWN_SECRETS:
            raise InvalidRequest(f"There is no secret '{name[:60]}'; it is one of {', '.join(KNOWN_SECRETS)}.")
        return name

    def set(self, project_id: str, name: str, value: str, *, actor: str) -> None:
        self.validate_name(name)
        if not value.strip() or len(value) > MAX_SECRET_CHARS:
            raise InvalidRequest(f"A secret has 1 to {MAX_SECRET_CHARS:,} characters.")
        row = {
            "project_id": project_id,
            "name": name,
            "sealed": self._encrypt(project_id, name, value.strip()),
            "updated_at": clock.now(),
        }
        with self.database.write() as tx:
            tx.execute(delete(secrets).where(secrets.c.project_id == project_id, secrets.c.name == name))
            tx.execute(insert(secrets).values(row))
            audit_log.record(tx, project_id, actor, "secret.set", name)

    def get_or_create(self, project_id: str, name: str) -> str:
        """A random secret of the service's own, in hex: made when first asked for, the same ever after."""
        value = self.get(project_id, name)
        if value is None:
            sealed = self._encrypt(project_id, name, randomness.token_hex(32))
            row = {"project_id": project_id, "name": name, "sealed": sealed, "updated_at": clock.now()}
            same_row = (secrets.c.project_id == project_id) & (secrets.c.name == name)
            with suppress(IntegrityError), self.database.write() as tx:
                if tx.execute(select(secrets.c.name).where(same_row)).first() is None:  # else somebody else was first
                    tx.execute(insert(secrets).values(row))
            value = self.get(project_id, name)
            assert value is not None
        return value

    def remove(self, project_id: str, name: str, *, actor: str) -> None:
        self.validate_name(name)
        with self.database.write() as tx:
            deleted = tx.execute(delete(secrets).where(secrets.c.project_id == project_id, secrets.c.name == name))
            if not deleted.rowcount:
                raise NotFound("This project has no such secret.")
            audit_log.record(tx, project_id, actor, "secret.removed", name)

    def _encrypt(self, project_id: str, name: str, value: str) -> bytes:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        nonce = randomness.token_bytes(NONCE_BYTES)
        return nonce + AESGCM(self._load_keys()[0]).encrypt(nonce, value.encode(), _associated_data(project_id, name))

    def _decrypt(self, project_id: str, name: str, sealed: bytes) -> str:
        from cryptography.exceptions import InvalidTag
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        for key in self._load_keys():
            with suppress(InvalidTag):
                return (
                    AESGCM(key)
                    .decrypt(sealed[:NONCE_BYTES], sealed[NONCE_BYTES:], _associated_data(project_id, name))
                    .decode()
                )
        raise CannotUnseal(
            f"The secret {name} was sealed with another key: give that in COPYDESK_SECRET_KEY, or set the secret anew."
        )

    def _load_keys(self) -> Sequence[bytes]:
        """The first seals; the others open what was sealed before a change of key."""
        if self.settings.secret_key:
            return [_decode_key(part) for part in self.settings.secret_key]
        return [_decode_key(_read_or_create_key(self.settings.data.absolute() / "secret.key"))]


def select_model_keys(secret_values: Mapping[str, str]) -> dict[str, str]:
    """The keys of model providers among a project's secrets, by provider."""
    prefix = "model_key_"
    return {name.removeprefix(prefix): value for name, value in secret_values.items() if name.startswith(prefix)}


def _associated_data(project_id: str, name: str) -> bytes:
    return f"{project_id}/{name}".encode()


def _decode_key(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except binascii.Error:
        key = b""
    if len(key) != 32:
        raise BadSettings("COPYDESK_SECRET_KEY: must be 32 bytes in base64, such as `openssl rand -base64 32` prints")
    return key


def _read_or_create_key(path: Path) -> str:
    """Made at first use. It is written whole before it gets its name, so that two processes never make two keys."""
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}-{randomness.token_hex(8)}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(base64.b64encode(randomness.token_bytes(32)).decode() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
    return path.read_text().strip()
