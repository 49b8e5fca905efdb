"""Lists the routes of the dashboard across its modules."""

from importlib import import_module
from pkgutil import walk_packages

from fastapi.routing import APIRoute

from copydesk.web import dashboard


def routes() -> list[APIRoute]:
    found = walk_packages(dashboard.__path__, f"{dashboard.__name__}.")
    modules = [import_module(module.name) for module in found if not module.ispkg]
    return [route for module in modules if hasattr(module, "router") for route in module.router.routes]
