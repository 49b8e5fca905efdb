import pytest

from copydesk.analytics.classification.agent_table import load_agent_table
from copydesk.analytics.classification.classifier import Classifier
from copydesk.analytics.classification.crawler_list import load_crawler_list
from copydesk.analytics.classification.ip_ranges import IpRanges, load_shipped_lists
from copydesk.analytics.ingest.raw_view import SiteConfig
from copydesk.analytics.ingest.visitor_ids import VisitorHasher


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    return Classifier(load_agent_table(), IpRanges(load_shipped_lists()), load_crawler_list())


@pytest.fixture(scope="session")
def site(classifier: Classifier) -> SiteConfig:
    return SiteConfig("prj_1", classifier, VisitorHasher("prj_1", b"a secret of the project"))
