"""Commits are signed with the project's SSH key, so that git and forges can verify them."""

import shutil
import subprocess
from pathlib import Path

import pygit2
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from copydesk.jobs.job import RepositoryFailed
from copydesk.jobs.publish.git.commit_signature import load_commit_signer
from copydesk.jobs.publish.git.git_command import Git
from copydesk.jobs.publish.git.mirror import Mirror
from tests.support.programs import skip_missing
from tests.support.repositories import list_branches, make_repository
from tests.support.scripted_model import ScriptedModel, edit, finish
from tests.support.service import serve

Key = ed25519.Ed25519PrivateKey | rsa.RSAPrivateKey | ec.EllipticCurvePrivateKey


def require_ssh_keygen() -> None:
    if shutil.which("ssh-keygen") is None:
        skip_missing("ssh-keygen", "Git verifies signatures with it: install openssh-client.")


def make_ssh_key(key: Key) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()


def verify_commit(
    repository: Path, commit: str, key: Key, email: str, folder: Path
) -> subprocess.CompletedProcess[str]:
    """Verifies a commit with git and ssh-keygen, which know this key as the one of the address."""
    public_key = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    signers = folder / "signers"
    signers.write_text(f'{email} namespaces="git" {public_key}\n')
    option = f"gpg.ssh.allowedSignersFile={signers}"
    command = ["git", "-c", option, "-C", str(repository), "verify-commit", commit]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("key", [ed25519.Ed25519PrivateKey.generate(), rsa.generate_private_key(65537, 2048)])
def test_git_verifies_the_signature_of_a_job_and_of_its_rebased_commit(key: Key, tmp_path: Path) -> None:
    require_ssh_keygen()
    repository = make_repository(tmp_path / "docs.git", {"page.md": b"# Page\n"})
    mirror = Mirror(
        tmp_path / "mirror.git", Git(str(repository)), load_commit_signer({"signing_key": make_ssh_key(key)})
    )
    head = mirror.fetch_head("main")
    author = pygit2.Signature("Jürgen", "docs@acme.org", 1_700_000_000)
    commit = mirror.commit(head, {"page.md": b"# Other page\n"}, "Rename the page – once\n", author)
    rebased = mirror.rebase(commit, head, head)
    for signed in (commit, rebased):
        assert signed is not None
        result = verify_commit(mirror.folder, signed, key, "docs@acme.org", tmp_path)
        assert result.returncode == 0, result.stderr
        assert 'Good "git" signature for docs@acme.org' in result.stderr
    again = mirror.commit(head, {"page.md": b"# Other page\n"}, "Rename the page – once\n", author)
    assert again == commit  # a crashed worker recreates the same commit


@pytest.mark.deep
def test_job_pushes_a_signed_commit(tmp_path: Path) -> None:
    require_ssh_keygen()
    key = ed25519.Ed25519PrivateKey.generate()
    repository = make_repository(tmp_path / "docs.git", {"page.md": b"# Page\n"})
    model = ScriptedModel((edit("page.md", "Page", "Other"), finish("Rename it", "Done.")))
    with serve(tmp_path / "data", repository=repository, model=lambda _name: model) as service:
        service.desk.secrets.set(service.project.id, "signing_key", make_ssh_key(key), actor="test")
        job = service.client.wait(service.client.create_job("Rename it")["id"])
    assert job["status"] == "completed", job["message"]
    head = list_branches(repository)[job["branch"] or ""]
    result = verify_commit(repository, head, key, "copydesk@localhost", tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize(
    "text", ["no key", "-----BEGIN OPENSSH PRIVATE KEY-----\nAAAA\n-----END OPENSSH PRIVATE KEY-----",
             make_ssh_key(ec.generate_private_key(ec.SECP256R1()))])  # fmt: skip
def test_unusable_signing_key_is_reported_without_showing_it(text: str) -> None:
    with pytest.raises(RepositoryFailed, match="must be an Ed25519 or RSA private key without a passphrase") as refused:
        load_commit_signer({"signing_key": text})
    assert text not in str(refused.value)
