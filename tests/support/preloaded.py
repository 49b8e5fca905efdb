"""What the processes of the tests have loaded when they begin: they are forked from one that has imported this."""

import gc

import detect_secrets.plugins.aws
import pydantic_ai.direct
import pydantic_ai.models.openai
import pydantic_ai.providers.openai_compatible

import copydesk.analytics.keeping
import copydesk.analytics.opening
import copydesk.analytics.sites
import copydesk.cli.backup
import copydesk.cli.serve
import copydesk.jobs.performing
import copydesk.web.server
import tests.crash.worker

__all__ = ["copydesk", "detect_secrets", "pydantic_ai", "tests"]

gc.freeze()  # else the first garbage collection of each would copy all of it
