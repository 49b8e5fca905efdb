"""Builds a site with its own generator, strictly, and returns the warnings.

The generators are installed once per run, with pinned versions, into a temporary folder.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from json import dumps
from pathlib import Path

PYTHON_PACKAGES = {
    "mkdocs": ("mkdocs==1.6.1", "mkdocs-redirects==1.2.3", "mkdocstrings-python==2.0.10", "pymdown-extensions==13.0"),
    "sphinx": ("sphinx==9.0.4", "myst-parser==5.2.0", "sphinx-reredirects==1.1.0"),
}
NODE_PACKAGES: dict[str, dict[str, dict[str, str]]] = {
    "vitepress": {"dependencies": {"vitepress": "1.6.4"}},
    "docusaurus": {
        "dependencies": {
            "@docusaurus/core": "3.8.1",
            "@docusaurus/preset-classic": "3.8.1",
            "@docusaurus/plugin-client-redirects": "3.8.1",
            "react": "18.3.1",
            "react-dom": "18.3.1",
        },
        # A newer webpack refuses the options of the progress bar that this version of Docusaurus passes to it.
        "overrides": {"webpack": "5.99.9"},
    },
}
INSTALL_TIMEOUT_SECONDS, BUILD_TIMEOUT_SECONDS = 900, 600
MKDOCS_WARNING_PATTERN = re.compile(r"^(?:WARNING|ERROR)\s+-\s+(.+(?:\n {4,}.+)*)", re.M)
SPHINX_WARNING_PATTERN = re.compile(r"^(?:.+?: )?(?:WARNING|ERROR|CRITICAL): .+$", re.M)
VITEPRESS_WARNING_PATTERN = re.compile(
    r"^.*(?:dead link|Invalid file path|Include file not found|Error:).*$", re.M | re.I
)
DOCUSAURUS_WARNING_PATTERN = re.compile(r"^(?:Cause: |Error: |\[WARNING\] ).+$", re.M)
DOCUSAURUS_BROKEN_PATTERN = re.compile(
    r"- Broken (?:link|anchor) on source page path = (\S+):((?:\s+-> linking to .+)+)"
)
MDBOOK_WARNING_PATTERN = re.compile(r"^.*\[?\b(?:WARN|ERROR)\b\]?.*$", re.M)
ANSI_PATTERN = re.compile(r"\x1b\[[0-9;]*m")
LINE_NUMBER_PATTERN = re.compile(r"(?<=\w):\d+(?::\d+)?(?=:)|\(\d+:\d+\)")


class NotRun(Exception):
    """A builder is not available; the message says why."""


@dataclass(frozen=True)
class Build:
    succeeded: bool
    warnings: tuple[str, ...]
    """Without line numbers, colors and the folder of the site, so that two builds can be compared."""


@dataclass(frozen=True)
class Builder:
    """An installed generator."""

    generator: str
    command: tuple[str, ...]
    find_warnings: Callable[[str], list[str]]
    node_modules: Path | None = None

    def build(self, files: Mapping[str, str], folder: Path) -> Build:
        """Writes the files into a new folder and builds them there."""
        shutil.rmtree(folder, ignore_errors=True)
        for path, text in files.items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, "utf-8")
        if self.node_modules is not None:
            (folder / "node_modules").symlink_to(self.node_modules, target_is_directory=True)
            (folder / "package.json").write_text('{"private": true}\n')
        try:
            result = subprocess.run(
                self.command,
                cwd=folder,
                capture_output=True,
                text=True,
                timeout=BUILD_TIMEOUT_SECONDS,
                env=_environment(),
            )
        except subprocess.TimeoutExpired:
            return Build(succeeded=False, warnings=(f"The build took more than {BUILD_TIMEOUT_SECONDS} seconds.",))
        output = ANSI_PATTERN.sub("", result.stdout + "\n" + result.stderr)
        warnings = [_normalize(warning, folder) for warning in self.find_warnings(output)]
        if result.returncode and not warnings:
            warnings = [f"The build failed: {output.strip()[-500:]}"]
        return Build(succeeded=result.returncode == 0, warnings=tuple(dict.fromkeys(warnings)))


def _environment() -> dict[str, str]:
    return {**os.environ, "DISABLE_MKDOCS_2_WARNING": "true", "NO_UPDATE_NOTIFIER": "1", "NO_COLOR": "1", "CI": "true"}


def _normalize(warning: str, folder: Path) -> str:
    text = " ".join(LINE_NUMBER_PATTERN.sub("", warning).split())
    for name in {str(folder), str(folder.resolve())}:
        text = text.replace(f"{name}/", "")
    return text


def install_builder(generator: str, folder: Path) -> Builder:
    """Installs a generator below the folder. Raises NotRun if that is not possible."""
    if generator in PYTHON_PACKAGES:
        return _install_python(generator, folder / f"{generator}-venv")
    if generator in NODE_PACKAGES:
        return _install_node(generator, folder / f"{generator}-node")
    mdbook = shutil.which("mdbook")
    if mdbook is None:
        raise NotRun("mdbook not found")
    return Builder("mdbook", (mdbook, "build"), MDBOOK_WARNING_PATTERN.findall)


def _install_python(generator: str, venv: Path) -> Builder:
    _run("PyPI", sys.executable, "-m", "venv", str(venv))
    python = venv / "bin" / "python"
    _run("PyPI", str(python), "-m", "pip", "install", "--quiet", *PYTHON_PACKAGES[generator])
    if generator == "mkdocs":
        command = (str(python), "-m", "mkdocs", "build", "--strict", "--site-dir", "site")
        return Builder(generator, command, MKDOCS_WARNING_PATTERN.findall)
    options = ("-W", "--keep-going", "-n", "-q", "-E", "-b", "html")
    return Builder(generator, (str(python), "-m", "sphinx", *options, "docs", "site"), SPHINX_WARNING_PATTERN.findall)


def _install_node(generator: str, folder: Path) -> Builder:
    npm, npx = shutil.which("npm"), shutil.which("npx")
    if npm is None or npx is None:
        raise NotRun("npm not found")
    folder.mkdir(parents=True)
    (folder / "package.json").write_text(dumps({"private": True, **NODE_PACKAGES[generator]}))
    _run("npm", npm, "install", "--no-audit", "--no-fund", "--loglevel=error", cwd=folder)
    modules = folder / "node_modules"
    program = str(modules / ".bin" / generator)
    if generator == "vitepress":
        pattern = VITEPRESS_WARNING_PATTERN
        return Builder(generator, (program, "build", "docs", "--outDir", "../site"), pattern.findall, modules)
    return Builder(generator, (program, "build", "--no-minify"), _find_docusaurus_warnings, modules)


def _find_docusaurus_warnings(output: str) -> list[str]:
    """Returns each broken link on its own, with the address of its page, and all other errors."""
    links = [
        f"{page}: {' '.join(link.split())}"
        for page, targets in DOCUSAURUS_BROKEN_PATTERN.findall(output)
        for link in targets.strip().split("->")
        if link.strip()
    ]
    others = [text for text in DOCUSAURUS_WARNING_PATTERN.findall(output) if "Unable to build website" not in text]
    return links + [text for text in others if not links or "broken" not in text.lower()]


def _run(registry: str, *command: str, cwd: Path | None = None) -> None:
    try:
        result = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotRun(f"installing from {registry} failed: {type(error).__name__}") from None
    if result.returncode:
        lines = [line for line in result.stderr.strip().splitlines() if "rror" in line]
        raise NotRun(f"installing from {registry} failed: {(lines or ['no message'])[-1][:200]}")
