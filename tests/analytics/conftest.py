import pytest

from copydesk.analytics.agents import table
from copydesk.analytics.classify import Classifier
from copydesk.analytics.event import Site
from copydesk.analytics.identify import Key
from copydesk.analytics.opinions import opinions
from copydesk.analytics.ranges import Ranges, shipped


@pytest.fixture(scope="session")
def classifier() -> Classifier:
    return Classifier(table(), Ranges(shipped()), opinions())


@pytest.fixture(scope="session")
def site(classifier: Classifier) -> Site:
    return Site("prj_1", classifier, Key("prj_1", b"a secret of the project"))
