"""A desk with thousands of projects: the size of a statement is limited for any number of projects."""

import pytest
from sqlalchemy import insert

from copydesk.analytics.stores.base import CLASS_BITS
from copydesk.analytics.stores.report_rows import Counts
from copydesk.analytics.tables import view_classes
from tests.analytics.stores.conformance.test_store import MONDAY, make_view
from tests.support.clickhouse_store import FolderClickHouseStore

pytestmark = pytest.mark.deep

PROJECTS = [f"prj_{number:026}" for number in range(4_500)]


@pytest.mark.drill
def test_thousands_of_projects_with_own_ai_classes_work(store: FolderClickHouseStore) -> None:
    with store.main.write() as tx:
        tx.execute(insert(view_classes), [{"project_id": project, "ai": CLASS_BITS["search"]} for project in PROJECTS])
    views = [make_view(kind="search", project=project, event=7) for project in PROJECTS]
    assert store.log_views([*views, make_view(kind="assistant")]).accepted == len(views) + 1
    assert len(store.log_views(views).duplicates) == len(views)
    assert store.fold() == len(views) + 1
    for _ in range(2):
        for project in (PROJECTS[1234], PROJECTS[-1], "docs"):
            assert store.count_visitors_by_page(project).totals == Counts(0, 1, 1)
        store.rebuild_index()
    assert store.delete_raw_views(MONDAY + 1, PROJECTS) == len(views)
    assert len(store.list_rules("docs")) == 1
