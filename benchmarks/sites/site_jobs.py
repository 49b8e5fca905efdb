"""Jobs on the sample sites: a prompt, what is broken before it, and the result that a person expects."""

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from benchmarks.agent.cases import EvaluationCase, FileEdit, InvalidCase

CONTENT = Path(__file__).parent / "content"
GENERATORS = ("mkdocs", "sphinx", "docusaurus", "vitepress", "mdbook")


class SiteJob(BaseModel):
    """One job of a site, as `jobs.toml` describes it."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    name: str
    prompt: str
    before: dict[str, FileEdit] = {}
    """Edits that the site gets before the job, such as links that it breaks."""
    added: dict[str, str] = {}
    """Files that the site gets before the job, such as a page that no menu lists."""


@dataclass(frozen=True)
class PreparedJob:
    generator: str
    name: str
    case: EvaluationCase
    files: dict[str, str]
    """The files that the job starts from."""

    @property
    def expected_path(self) -> Path:
        """Returns the file with the expected changes, as `format_changes` writes them."""
        return CONTENT / self.generator / "expected" / f"{self.name}.txt"


def load_site(generator: str) -> dict[str, str]:
    """Returns the text of each file of a sample site, by path."""
    folder = CONTENT / generator / "files"
    return {
        path.relative_to(folder).as_posix(): path.read_text("utf-8")
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts
    }


def load_jobs(generator: str) -> Iterator[PreparedJob]:
    """Yields the jobs of a sample site in the order of its `jobs.toml`."""
    site = load_site(generator)
    for values in tomllib.loads((CONTENT / generator / "jobs.toml").read_text("utf-8"))["job"]:
        job = SiteJob.model_validate(values)
        files = {
            **site,
            **{path: _apply_edit(job.name, site, path, edit) for path, edit in job.before.items()},
            **job.added,
        }
        case = EvaluationCase(name=f"{generator}-{job.name}", prompt=job.prompt, files=dict(files), reference={})
        yield PreparedJob(generator, job.name, case, files)


def _apply_edit(name: str, site: dict[str, str], path: str, edit: FileEdit) -> str:
    text = site[path]
    for old, new in edit.replace:
        if old not in text:
            raise InvalidCase(f"Job {name}: {path} does not contain {old!r}.")
        text = text.replace(old, new)
    return text
