"""The secrets of projects, such as forge tokens and model keys: encrypted at rest and never shown again."""

import base64
import binascii
import os
import secrets as randomness
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from sqlalchemy import Connection, delete, insert, select

from copydesk.core import audit_log, clock
from copydesk.core.db.database import Database
from copydesk.core.db.inserts import insert_if_absent
from copydesk.core.db.tables import secrets
from copydesk.core.errors import InvalidRequest, NotFound, RequestError
from copydesk.core.projects.missing_projects import refuse_missing_project
from copydesk.core.settings import BadSettings, Settings

KNOWN_SECRETS = {
    "forge_token": "the token that reads and pushes the repository and opens pull requests",
    "app_key": "the private key (PEM) of the GitHub App",
    "signing_key": "the SSH private key that signs the commits, for repositories that require signed commits",
    "webhook_secret": "the secret with which the forge signs its webhooks",
    "model_key_openai": "the OpenAI key for this project's jobs",
    "model_key_anthropic": "the Anthropic key for this project's jobs",
    "model_key_google": "the Google key for this project's jobs",
    "model_key_compatible": "the key for the OpenAI-compatible model",
}
MAX_SECRET_CHARS = 20_000
NONCE_BYTES = 12


class CannotUnseal(RequestError):
    """A secret that no configured key can decrypt. The message says what to do."""

    status, code = 503, "cannot_unseal"
    message = "A stored secret cannot be decrypted with this key."


class SealedSecrets:
    """Stores secrets with AES-256-GCM, bound to project and name, so that a row cannot be used as another."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self.database = database
        self.settings = settings

    def get(self, project_id: str, name: str) -> str | None:
        return self.all(project_id).get(name)

    def all(self, project_id: str) -> dict[str, str]:
        """Returns every secret of the project, decrypted, by name."""
        with self.database.read() as tx:
            rows = tx.execute(select(secrets.c.name, secrets.c.sealed).where(secrets.c.project_id == project_id)).all()
        return {row.name: self._decrypt(project_id, row.name, row.sealed) for row in rows}

    def read_update_times(self, project_id: str) -> dict[str, int]:
        """Returns when each secret that a person set was last updated, by name."""
        query = select(secrets.c.name, secrets.c.updated_at).where(
            secrets.c.project_id == project_id, secrets.c.name.in_(KNOWN_SECRETS)
        )
        with self.database.read() as tx:
            return {row.name: row.updated_at for row in tx.execute(query.order_by(secrets.c.name))}

    @staticmethod
    def validate_name(name: str) -> str:
        if name not in KNOWN_SECRETS:
            raise InvalidRequest(f"Unknown secret '{name[:60]}'. Use one of {', '.join(KNOWN_SECRETS)}.")
        return name

    def set(self, project_id: str, name: str, value: str, *, actor: str) -> None:
        self.validate_name(name)
        with refuse_missing_project(self.database, project_id), self.database.write() as tx:
            self.store_in(tx, project_id, name, value)
            audit_log.record(tx, project_id, actor, "secret.set", name)

    def store_in(self, tx: Connection, project_id: str, name: str, value: str) -> None:
        """Stores a secret in the caller's transaction. Raises InvalidRequest for an empty or too long value."""
        if not value.strip() or len(value) > MAX_SECRET_CHARS:
            raise InvalidRequest(f"A secret must have 1 to {MAX_SECRET_CHARS:,} characters.")
        row = {
            "project_id": project_id,
            "name": name,
            "sealed": self._encrypt(project_id, name, value.strip()),
            "updated_at": clock.now(),
        }
        self.delete_in(tx, project_id, name)
        tx.execute(insert(secrets).values(row))

    def delete_in(self, tx: Connection, project_id: str, name: str) -> bool:
        """Deletes a secret in the caller's transaction. Returns whether there was one."""
        condition = (secrets.c.project_id == project_id) & (secrets.c.name == name)
        return bool(tx.execute(delete(secrets).where(condition)).rowcount)

    def get_or_create(self, project_id: str, name: str) -> str:
        """Returns a random secret that the service uses itself, in hex. Creates it at the first call."""
        value = self.get(project_id, name)
        if value is None:
            sealed = self._encrypt(project_id, name, randomness.token_hex(32))
            row = {"project_id": project_id, "name": name, "sealed": sealed, "updated_at": clock.now()}
            with refuse_missing_project(self.database, project_id), self.database.write() as tx:
                insert_if_absent(tx, secrets, row)
            value = self.get(project_id, name)  # another process may have been first
            assert value is not None
        return value

    def remove(self, project_id: str, name: str, *, actor: str) -> None:
        self.validate_name(name)
        with self.database.write() as tx:
            if not self.delete_in(tx, project_id, name):
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
            f"The secret {name} was encrypted with another key. "
            "Add that key to COPYDESK_SECRET_KEY, or set the secret again."
        )

    def _load_keys(self) -> Sequence[bytes]:
        """Returns the keys. The first one encrypts; the others only decrypt secrets from before a key rotation."""
        if self.settings.secret_key:
            return [_decode_key(part) for part in self.settings.secret_key]
        return [_decode_key(_read_or_create_key(self.settings.require_data_folder() / "secret.key"))]


def select_model_keys(secret_values: Mapping[str, str]) -> dict[str, str]:
    """Returns the model providers' keys among a project's secrets, by provider."""
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
        raise BadSettings("COPYDESK_SECRET_KEY: must be 32 bytes in base64; create it with `openssl rand -base64 32`")
    return key


def _read_or_create_key(path: Path) -> str:
    """Returns the key in this file; creates it at first use.

    The key is written to a temporary file, which is then linked, so that two processes never create two keys.
    """
    if not path.exists():
        temporary = path.with_name(f".{path.name}-{randomness.token_hex(8)}")
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(base64.b64encode(randomness.token_bytes(32)).decode() + "\n")
            file.flush()
            os.fsync(file.fileno())
        with suppress(FileExistsError):
            os.link(temporary, path)
        temporary.unlink()
    return path.read_text().strip()
