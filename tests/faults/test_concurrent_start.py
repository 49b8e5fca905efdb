"""Several servers that start at the same moment on an empty database."""

from pathlib import Path

import pytest
from sqlalchemy import text

from copydesk.core.db.database import Database
from copydesk.core.db.migrate import SCHEMA_VERSION
from tests.support.postgres import new_database
from tests.support.processes import CommandSpec, RunningServer, free_port, settings_environment

pytestmark = pytest.mark.deep


@pytest.mark.drill
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_servers_that_start_together_on_an_empty_database_all_serve(tmp_path: Path, kind: str) -> None:
    data = tmp_path / "data"
    url = new_database() if kind == "postgres" else f"sqlite:///{data / 'copydesk.db'}"
    settings = settings_environment({"data": data, "database_url": url})
    servers = []
    for number in range(4):
        port = free_port()
        servers.append(
            RunningServer(CommandSpec(("serve", "--port", str(port)), settings, tmp_path / f"{number}.log"), port)
        )
    try:
        for server in servers:
            server.wait_until_ready()
            server.stop()
            assert "Traceback" not in server.output
    finally:
        for server in servers:
            server.close()
    database = Database(url)
    with database.read() as tx:
        assert tx.execute(text("select version_num from alembic_version")).scalars().all() == [SCHEMA_VERSION]
    database.close()
