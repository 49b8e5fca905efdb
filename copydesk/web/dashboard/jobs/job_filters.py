"""The filters and the search that lists of jobs share: reads them from the query string, and offers choices."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Annotated
from urllib.parse import urlencode

from fastapi import Depends, Query

from copydesk.core.ids import is_id
from copydesk.jobs.job import Creator, CreatorKind, ReviewState
from copydesk.jobs.storage.lookups.job_search import JobFilter, StateCount
from copydesk.web.dashboard.jobs.job_rows import STATE_LABELS

ALL_STATES = "all"
MAX_OFFERED_CREATORS = 100
"""Of each kind."""
CREATOR_ID_PREFIXES = {"pers": CreatorKind.PERSON, "auto": CreatorKind.AUTOMATION, "key": CreatorKind.KEY}
QueryText = Annotated[str, Query(max_length=200)]


@dataclass(frozen=True)
class JobListQuery:
    """The query string of a list of jobs. Unknown values filter nothing."""

    state: QueryText = ""
    by: QueryText = ""
    project: QueryText = ""
    text: QueryText = ""
    cursor: QueryText = ""

    def to_filter(self, project_ids: Sequence[str], default_state: ReviewState | None = None) -> JobFilter:
        """Returns the filter on these projects, or on the chosen one of them."""
        chosen_ids = [each for each in project_ids if each == self.project] or project_ids
        return JobFilter(
            chosen_ids,
            state=self.parse_state(default_state),
            creator_kind=CreatorKind(self.by) if self.by in set(CreatorKind) else None,
            creator_id=self.by if is_creator_id(self.by) else None,
            text=self.text.strip(),
        )

    def parse_state(self, default_state: ReviewState | None = None) -> ReviewState | None:
        if self.state == ALL_STATES:
            return None
        return ReviewState(self.state) if self.state in set(ReviewState) else default_state

    @property
    def valid_cursor(self) -> str | None:
        return self.cursor if is_id(self.cursor, "job") else None

    @property
    def is_filtered(self) -> bool:
        return bool(self.by or self.project or self.text.strip())

    def build_url(self, path: str, **changes: str) -> str:
        """Returns the URL of the list with these changes. Any change but that of the cursor leads to the first page."""
        query = replace(self, **{"cursor": "", **changes})
        values = {name: value for name, value in asdict(query).items() if value}
        return f"{path}?{urlencode(values)}" if values else path


CurrentJobQuery = Annotated[JobListQuery, Depends()]


@dataclass(frozen=True)
class StateLink:
    """A state to filter by, with the number of its jobs."""

    label: str
    url: str
    count: str
    is_chosen: bool


@dataclass(frozen=True)
class CreatorChoices:
    """Who can be chosen in the filter, besides whole kinds."""

    people: Sequence[Creator]
    automations: Sequence[Creator]
    keys: Sequence[Creator]


def is_creator_id(text: str) -> bool:
    return any(is_id(text, prefix) for prefix in CREATOR_ID_PREFIXES)


def build_state_links(
    query: JobListQuery, path: str, counts: Mapping[ReviewState, StateCount], default_state: ReviewState | None = None
) -> list[StateLink]:
    """Returns a link for each state, in the order of STATE_LABELS, and one for all states."""
    chosen = query.parse_state(default_state)
    links = [
        StateLink(
            label,
            query.build_url(path, state=state),
            format_count(counts.get(state, StateCount(0, is_minimum=False))),
            state is chosen,
        )
        for state, label in STATE_LABELS.items()
    ]
    total = StateCount(
        sum(each.total for each in counts.values()), is_minimum=any(each.is_minimum for each in counts.values())
    )
    all_states = query.build_url(path, state=ALL_STATES)
    return [*links, StateLink("All", all_states, format_count(total), chosen is None)]


def build_creator_choices(creators: Sequence[Creator]) -> CreatorChoices:
    by_kind = {
        kind: [creator for creator in creators if creator.kind is kind][:MAX_OFFERED_CREATORS] for kind in CreatorKind
    }
    return CreatorChoices(by_kind[CreatorKind.PERSON], by_kind[CreatorKind.AUTOMATION], by_kind[CreatorKind.KEY])


def format_count(count: StateCount) -> str:
    return f"{count.total:,}{'+' if count.is_minimum else ''}"
