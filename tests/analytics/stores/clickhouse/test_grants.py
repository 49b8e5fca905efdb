"""The grants in the documentation: the engine parses them, and a store works with them."""

import re
from pathlib import Path

import pytest

from copydesk.analytics.stores.clickhouse import ClickHouseStore
from tests.analytics.stores.clickhouse.test_crash import FINDER, assert_same_reports, fill_store
from tests.support.clickhouse import ROOT, clickhouse_server, run_query
from tests.support.clickhouse_store import main_database

pytestmark = pytest.mark.deep

BLOCKS = re.findall(r"```sql\n(.*?)```", (ROOT / "docs/clickhouse.md").read_text("utf-8"), re.S)
ALONE, IN_A_CLUSTER = ([line for line in block.replace("\n", " ").split(";") if line.strip()] for block in BLOCKS)
USERS = """
    <clickhouse>
      <profiles><default/></profiles>
      <quotas><default/></quotas>
      <users><default>
        <password/><profile>default</profile><quota>default</quota><networks><ip>::/0</ip></networks>
        <grants>{}</grants>
      </default></users>
      <users_config>{}</users_config>
    </clickhouse>
"""


def test_clickhouse_parses_every_documented_grant() -> None:
    for statement in (*ALONE, *IN_A_CLUSTER):
        quoted = statement.replace("'", "\\'")
        assert run_query(f"select formatQuery('{quoted}')").startswith(("GRANT", "CREATE USER"))


@pytest.mark.drill
def test_documented_grants_are_enough_for_a_store(tmp_path: Path) -> None:
    granted = [statement.removesuffix(" to desk") for statement in ALONE if statement.strip().startswith("grant")]
    config = tmp_path / "config.xml"
    config.write_text(USERS.format("".join(f"<query>{statement}</query>" for statement in granted), config))
    main = main_database(tmp_path)
    with clickhouse_server(f"config-file={config}") as server:
        assert "DROP" not in server.run_query("show grants"), "it is granted these and nothing else"
        store = ClickHouseStore(server.url("desk"), main)
        model = fill_store(store)
        assert store.fold() == model.fold()
        assert_same_reports(store, model)
        store.set_ai_classes("docs", {"search"})
        store.rebuild_index()
        assert store.withdraw_views("docs", [3]) == 1
        store.reclassify_views("docs", [FINDER], "2")
        store.forget_visitor("docs", 1)
        store.forget_project("other")
        store.delete_raw_views(before_day=99_999)
        store.back_up(tmp_path / "copy")
        store.close()
    main.close()
