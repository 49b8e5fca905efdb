"""Options for how the page views of a project are collected and counted."""

import re
from typing import Annotated, Any

from pydantic import Field, field_validator

from copydesk.core.projects.options import CommaSeparated, ProjectOptions
from copydesk.core.projects.privacy_choices import DEFAULT_PRIVACY, PrivacyName

ORIGIN_PATTERN = re.compile(r"https?://(?:\*\.)?[a-z0-9.-]+(?::\d{1,5})?|https?://\[[0-9a-f:]+\](?::\d{1,5})?")
NON_HUMAN_CLASSES = ("assistant", "search", "training", "other")


class CollectionOptions(ProjectOptions):
    origins: CommaSeparated = ()
    """Sites whose pages may send views from a browser, such as https://docs.example.com. Leave empty for any site."""
    base_path: Annotated[str, Field(max_length=200)] = ""
    """The path prefix of the documentation, such as /docs. It is cut from paths; views outside it are dropped."""
    page_parameters: CommaSeparated = ()
    """Query parameters that identify a separate page. All others are dropped."""
    ai_classes: CommaSeparated = ("assistant",)
    """The classes of visitors that count as AI."""
    privacy: PrivacyName = DEFAULT_PRIVACY
    """How long a visitor is recognized: forever (lasting), within a day (daily) or within a month (monthly)."""
    do_not_track: bool = False
    """Do not count browsers that ask not to be tracked."""
    raw_retention_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    """Days after which raw page views are deleted; the counts stay. Leave empty to keep them."""
    feedback_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    """Days after which feedback is deleted. Leave empty to keep it."""
    search_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    """Days after which searches are deleted. Leave empty to keep them."""
    assistant_days: Annotated[int, Field(ge=1, le=36_500)] | None = None
    """Days after which questions to an assistant are deleted. Leave empty to keep them."""

    @field_validator("origins")
    @classmethod
    def _validate_origins(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        origins = tuple(origin.lower().rstrip("/") for origin in value)
        for origin in origins:
            if not ORIGIN_PATTERN.fullmatch(origin):
                raise ValueError("must be origins such as https://docs.example.com or https://*.example.com")
        return origins

    @field_validator("base_path")
    @classmethod
    def _normalize_base_path(cls, value: str) -> str:
        parts = [part for part in value.split("/") if part]
        if not value.isprintable() or set("?#% ") & set(value) or {".", ".."} & set(parts):
            raise ValueError("must be a path such as /docs")
        return "".join(f"/{part}" for part in parts)

    @field_validator("ai_classes")
    @classmethod
    def _validate_ai_classes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if name not in NON_HUMAN_CLASSES:
                raise ValueError(f"must be one or more of {', '.join(NON_HUMAN_CLASSES)}")
        return tuple(sorted(set(value)))

    @field_validator("raw_retention_days", "feedback_days", "search_days", "assistant_days", mode="before")
    @classmethod
    def _empty_to_none(cls, value: Any) -> Any:
        return None if value == "" else value
