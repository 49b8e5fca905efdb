"""The served beacon: small, built from its source, in syntax that every browser of the last ten years supports."""

import re
import runpy
from pathlib import Path

import copydesk
from tests.support.service import Service

ROOT = Path(copydesk.__file__).parent.parent
BEACON, SOURCE = (ROOT / "copydesk/web/static" / name for name in ("beacon.js", "beacon.source.js"))


def test_beacon_is_built_from_its_source() -> None:
    shrunk = runpy.run_path(str(ROOT / "scripts/beacon"))["shrunk"]
    assert BEACON.read_text("utf-8") == shrunk(SOURCE.read_text("utf-8"))


def test_beacon_is_at_most_2000_bytes(service: Service) -> None:
    served = service.http.get("/beacon.js", headers={"Accept-Encoding": "identity"})
    assert served.content == BEACON.read_bytes()
    assert len(served.content) <= 2000


def test_the_beacon_stores_nothing_and_loads_nothing() -> None:
    script = BEACON.read_text("utf-8")
    assert re.findall(r"cookie|Storage|indexedDB|caches|import|createElement|eval", script) == []


def test_the_beacon_needs_no_new_syntax() -> None:
    script = re.sub(r'"[^"]*"', '""', BEACON.read_text("utf-8"))
    assert re.findall(r"=>|`|\b(?:const|let|class|async|await)\b|\?\.|\?\?|\.\.\.", script) == []
