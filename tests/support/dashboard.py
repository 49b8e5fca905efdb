"""The routes of the dashboard, whichever of its modules has them."""

from importlib import import_module
from pkgutil import iter_modules

from fastapi.routing import APIRoute

from copydesk.web import dash


def routes() -> list[APIRoute]:
    modules = [import_module(f"{dash.__name__}.{module.name}") for module in iter_modules(dash.__path__)]
    return [route for module in modules if hasattr(module, "router") for route in module.router.routes]
