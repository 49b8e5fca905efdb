"""The README's commands, when something is missing: each fails with a sentence, and none with a traceback."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
BLOCK = re.compile(r"^```bash\n(.*?)^```$", re.M | re.S)


@pytest.mark.deep
@pytest.mark.parametrize("page", ["README.md", "docs/quickstart.md"])
def test_commands_fail_with_a_sentence_when_the_repository_and_the_server_are_missing(
    tmp_path: Path, page: str
) -> None:
    curl = tmp_path / "bin" / "curl"
    curl.parent.mkdir()
    curl.write_text("#!/bin/sh\necho 'curl: (7) Failed to connect' >&2\nexit 7\n")
    curl.chmod(0o755)
    blocks = [block for block in BLOCK.findall((ROOT / page).read_text("utf-8")) if "until curl" not in block]
    script = "\n".join(block for block in blocks if "git init" not in block)
    environment = {
        "PATH": os.pathsep.join([str(curl.parent), str(Path(sys.executable).parent), os.environ["PATH"]]),
        "HOME": str(tmp_path),
        "PYTHONPATH": str(ROOT),
        "COPYDESK_URL": "http://127.0.0.1:9",
    }
    done = subprocess.run(
        ["bash", "-c", script], env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )
    assert "Traceback" not in done.stdout + done.stderr
    assert "copydesk: '" in done.stderr
    assert "does not appear to be a git repository on this machine." in done.stderr
    assert "curl: (7)" in done.stderr
