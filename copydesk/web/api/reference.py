"""The page /docs: the API reference, rendered from the OpenAPI description."""

from typing import Any

from fastapi import APIRouter, Request, Response

from copydesk.web.responses.html import render_page

router = APIRouter(include_in_schema=False)


@router.get("/docs")
def show_reference(request: Request) -> Response:
    schema = request.app.openapi()
    operations = [
        {"method": method.upper(), "path": path, **operation}
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]
    return render_page("reference.html", title="API reference", operations=operations, schemas=_list_schemas(schema))


def _list_schemas(schema: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "fields": [{"name": field, **definition} for field, definition in body.get("properties", {}).items()],
        }
        for name, body in schema["components"]["schemas"].items()
    ]
