"""Lists the routes of the dashboard across its modules."""

from importlib import import_module
from pkgutil import walk_packages

from fastapi.routing import APIRoute

from copydesk.web import dashboard


def list_dashboard_routes() -> list[APIRoute]:
    module_infos = walk_packages(dashboard.__path__, f"{dashboard.__name__}.")
    modules = [import_module(module.name) for module in module_infos if not module.ispkg]
    return [route for module in modules if hasattr(module, "router") for route in module.router.routes]
