import pytest

from copydesk.analytics.classification.agent_table import table
from copydesk.analytics.classification.classifier import Classifier
from copydesk.analytics.classification.crawler_list import opinions
from copydesk.analytics.classification.ip_ranges import Ranges, shipped
from copydesk.analytics.ingest.raw_view import Site
from copydesk.analytics.ingest.visitor_ids import Key


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    return Classifier(table(), Ranges(shipped()), opinions())


@pytest.fixture(scope="session")
def site(classifier: Classifier) -> Site:
    return Site("prj_1", classifier, Key("prj_1", b"a secret of the project"))
