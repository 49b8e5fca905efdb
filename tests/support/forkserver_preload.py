"""Modules that test processes have loaded at their start: they are forked from a process that imports this one."""

import gc

import pydantic_ai.direct
import pydantic_ai.models.openai
import pydantic_ai.providers.openai_compatible

import copydesk.analytics.ingest.site_registry
import copydesk.analytics.stores.fold_scheduler
import copydesk.analytics.stores.open_store
import copydesk.cli.commands.serve
import copydesk.cli.commands.stores.backup
import copydesk.jobs.workflow.executor
import copydesk.web.server
import tests.crash.worker

__all__ = ["copydesk", "pydantic_ai", "tests"]

gc.freeze()  # otherwise the first garbage collection of each process would copy all of it
