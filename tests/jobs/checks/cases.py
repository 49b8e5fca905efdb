"""Small repositories as text files: their files, a change, and the expected findings.

First lines `style:`, `about:`, and, optionally, `root:`, `required:`, `ignored:`. Then sections: `=== path` is a file
(`crlf`, `bom` and `latin1` may follow), `+++ path` is its content after the change, `--- path` deletes it, and `***
expect` lists `rule path:line`. With a change, only the findings that it introduces are listed.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path

from copydesk.jobs.checks import Finding, check
from copydesk.jobs.workspace.workspace import Workspace
from tests.jobs.conftest import MakeWorkspace

CORPUS = Path(__file__).parent / "corpus"
SECTION_PATTERN = re.compile(r"^(===|\+\+\+|---|\*\*\*) ([^\s\"][^\n]*)\n", re.M)
Expected = tuple[str, str, int]
"""Rule, path, line."""


@dataclass
class CorpusCase:
    name: str
    settings: dict[str, str]
    files: dict[str, bytes] = field(default_factory=dict)
    changes: dict[str, bytes | None] = field(default_factory=dict)
    expected: list[Expected] = field(default_factory=list)

    def find_findings(self, make: MakeWorkspace) -> list[Finding]:
        workspace = self.workspace(make)
        report = check(
            workspace,
            root=self.settings.get("root", ""),
            required_fields=self._split_setting("required"),
            ignored=self._split_setting("ignored"),
        )
        return list(report.introduced if self.changes else report.old)

    def workspace(self, make: MakeWorkspace) -> Workspace:
        workspace = make(self.files)
        workspace.apply(self.changes)
        return workspace

    def _split_setting(self, setting: str) -> list[str]:
        return [name.strip() for name in self.settings.get(setting, "").split(",") if name.strip()]


def load_cases() -> list[CorpusCase]:
    return [_parse_case(path) for path in sorted(CORPUS.glob("*.txt"))]


def _parse_case(path: Path) -> CorpusCase:
    text = path.read_text(encoding="utf-8")
    head, *sections = SECTION_PATTERN.split(text)
    settings = dict(line.split(": ", 1) for line in head.splitlines())
    case = CorpusCase(path.stem, settings)
    for mark, title, body in zip(sections[::3], sections[1::3], sections[2::3], strict=True):
        if mark == "***":
            case.expected = [_parse_expected(line) for line in body.splitlines()]
        elif mark == "---":
            case.changes[title] = None
        else:
            name, data = _parse_file(title, body)
            (case.files if mark == "===" else case.changes)[name] = data
    return case


def _parse_file(title: str, body: str) -> tuple[str, bytes]:
    name, *marks = re.split(r" (?=crlf|bom|latin1)", title)
    data = body.replace("\n", "\r\n" if "crlf" in marks else "\n").encode("latin-1" if "latin1" in marks else "utf-8")
    return name, b"\xef\xbb\xbf" + data if "bom" in marks else data


def _parse_expected(line: str) -> Expected:
    rule, place = line.split(" ", 1)
    path, number = place.rsplit(":", 1)
    return rule, path, int(number)
