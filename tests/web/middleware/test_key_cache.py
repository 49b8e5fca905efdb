"""The cache of API keys accepts no key for longer than the database would."""

import asyncio
import time
from pathlib import Path

import pytest

from copydesk.core import clock
from copydesk.core.errors import KeyRejected
from copydesk.core.settings import Settings
from copydesk.desk import open_desk_lazily
from copydesk.web.middleware.key_cache import ApiKeyCache
from tests.support import migrated_databases


def test_key_in_the_cache_is_rejected_once_it_expires(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    migrated_databases.new_sqlite(tmp_path)
    desk = open_desk_lazily(Settings(data=tmp_path))
    project = desk.projects.create("Docs", repository="/srv/docs.git", ref="main", actor="test")
    key, secret = desk.keys.create(project.id, expires_in=clock.HOUR, actor="test")
    cache = ApiKeyCache(desk)
    entry = asyncio.run(cache.authenticate(secret, project.id, "read", None))
    assert entry == (key, project)
    assert asyncio.run(cache.authenticate(secret, project.id, "read", None)) is entry
    expired_at = time.time_ns() + 3600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: expired_at)
    with pytest.raises(KeyRejected):
        asyncio.run(cache.authenticate(secret, project.id, "read", None))
    desk.close()
