"""Numeric ids of projects, pages, agents and rules, assigned when their names are first logged."""

from collections.abc import Collection, Iterable, Sequence, Set

from copydesk.analytics.page_view import MISSING_STATUSES, PageView
from copydesk.analytics.stores.base import CLASS_BITS, DEFAULT_AI_CLASSES
from copydesk.analytics.stores.duckdb.database import DuckConnection
from copydesk.analytics.stores.duckdb.ids.large_projects import LargeProjects
from copydesk.analytics.stores.duckdb.ids.scopes import (
    AGENT_SCOPE,
    MISSING_AGENT_SCOPE,
    MISSING_SCOPE,
    NO_SECTION,
    PAGE_SCOPE,
    SCOPE_COLUMNS,
    SITE_SCOPE,
    append_rows,
    compute_salt,
    find_scope_ids,
)
from copydesk.analytics.stores.duckdb.ids.section_ids import add_deeper_sections, add_section_ids
from copydesk.analytics.stores.duckdb.ids.source_ids import SourceIds
from copydesk.analytics.stores.names.missing_paths import MissingPathLimit

SELECT_MISSING_PATHS = "select path from scopes where sort = 3 and project = $project"
MAX_CACHED_PAGES = 100_000
"""The cache of pages is cleared when it exceeds this size."""
MAX_USED_SECTIONS = 10_000
"""The most sections that a project has in the cache of used ones, before it is cleared."""
AgentKey = tuple[int, str, str, str]
PageKey = tuple[int, str]
RuleKey = tuple[str, str]
ViewRow = tuple[int, int, int, int, int, int, int, int | None, str, str, int]
VIEW_COLUMNS = ["seq", "project", "page", "agent", "rule", "kind", "time", "visitor", "host", "referrer", "source"]


class IdTables:
    """A cache of the stored ids, as of the writer's transaction. Discarded after a failed transaction."""

    def __init__(self, connection: DuckConnection, max_cached_pages: int, large_projects: LargeProjects) -> None:
        self._max_cached_pages = max_cached_pages
        self._large_projects = large_projects
        self._has_unindexed_sections = False
        """Whether new pages are in sections of large projects that must be searched for."""
        self._used_sections: dict[int, set[str]] = {}
        """Sections of large projects that are not stored and contain stored pages, so that these are searched once."""
        execute = connection.execute
        self.projects: dict[str, int] = dict(execute("select name, id from projects").fetchall())
        kind_by_bit = {bit: kind for kind, bit in CLASS_BITS.items()}
        rows = execute("select sort, project, agent, operator, kind, id from scopes where sort in (2, 4)").fetchall()
        self._agents: dict[int, dict[AgentKey, int]] = {AGENT_SCOPE: {}, MISSING_AGENT_SCOPE: {}}
        for sort, project, agent, operator, kind, scope_id in rows:
            self._agents[sort][project, agent, operator, kind_by_bit[kind]] = scope_id
        rows = execute("select rule, version, id from rules").fetchall()
        self._rules: dict[RuleKey, int] = {(rule, version): rule_id for rule, version, rule_id in rows}
        self._pages: dict[int, dict[PageKey, int]] = {PAGE_SCOPE: {}, MISSING_SCOPE: {}}
        self._missing_path_limit = MissingPathLimit()
        self.sources = SourceIds(self._add_scopes, max_cached_pages)
        [(self._last_scope_id,)] = execute("select coalesce(max(id), 0) from scopes").fetchall()

    def build_view_rows(self, connection: DuckConnection, views: Sequence[PageView], first_seq: int) -> list[ViewRow]:
        """Returns the rows of views, numbered from `first_seq`. Stores new pages, agents and rules.

        The projects must exist (see `add_projects`).
        """
        views = self._missing_path_limit.apply(views, lambda project: self._load_missing_paths(connection, project))
        try:
            return self._build_known_rows(views, first_seq)
        except KeyError:
            self.add_rules(connection, {(view.rule, view.agent_table_version) for view in views})
            for page_sort, agent_sort, some_views in (
                (PAGE_SCOPE, AGENT_SCOPE, [view for view in views if not view.is_missing]),
                (MISSING_SCOPE, MISSING_AGENT_SCOPE, [view for view in views if view.is_missing]),
            ):
                agents = {(view.project, view.agent, view.operator, view.kind) for view in some_views}
                self.add_agents(connection, agents, agent_sort)
                self._add_pages(connection, some_views, page_sort)
            self.sources.add(connection, self.projects, views)
            if self._has_unindexed_sections:
                self._large_projects.request_search(first_seq + len(views) - 1)
                self._has_unindexed_sections = False
            return self._build_known_rows(views, first_seq)

    def _build_known_rows(self, views: Sequence[PageView], first_seq: int) -> list[ViewRow]:
        projects = self.projects
        pages, missing_pages = self._pages[PAGE_SCOPE], self._pages[MISSING_SCOPE]
        agents, missing_agents = self._agents[AGENT_SCOPE], self._agents[MISSING_AGENT_SCOPE]
        rules, sources = self._rules, self.sources.get_ids()
        rows: list[ViewRow] = []
        for seq, view in enumerate(views, first_seq):
            project_name, path, at, kind, agent, operator, rule, version, visitor, host, referrer, status, _ = view
            project_id = projects[project_name]
            is_missing = status in MISSING_STATUSES
            page_id = (missing_pages if is_missing else pages)[project_id, path]
            agent_id = (missing_agents if is_missing else agents)[project_id, agent, operator, kind]
            rule_id = rules[rule, version]
            source_id = 0 if is_missing else sources[project_id, host, referrer]
            rows.append((
                seq, project_id, page_id, agent_id, rule_id, CLASS_BITS[kind], at, visitor, host, referrer, source_id
            ))  # fmt: skip
        return rows

    def add_projects(self, connection: DuckConnection, names: set[str]) -> None:
        if new := sorted(names - self.projects.keys()):
            last_id, ai_mask = (
                max(self.projects.values(), default=0),
                sum(CLASS_BITS[kind] for kind in DEFAULT_AI_CLASSES),
            )
            new_ids = {name: last_id + number for number, name in enumerate(new, 1)}
            sites = self._add_scopes(
                connection, [(new_ids[name], SITE_SCOPE, "", "", "", 0, compute_salt(name), NO_SECTION) for name in new]
            )
            rows = [(new_ids[name], name, site, ai_mask) for name, site in zip(new, sites, strict=True)]
            append_rows(connection, "projects", ["id", "name", "site", "ai"], rows)
            self.projects.update(new_ids)

    def find_agent(self, project: str, agent: str, operator: str, kind: str, sort: int = AGENT_SCOPE) -> int | None:
        return self._agents[sort].get((self.projects[project], agent, operator, kind))

    def find_rule(self, rule: str, version: str) -> int | None:
        return self._rules.get((rule, version))

    def add_agents(
        self, connection: DuckConnection, agents: Set[tuple[str, str, str, str]], sort: int = AGENT_SCOPE
    ) -> None:
        """Stores agents that are new, each given as project name, agent, operator and class."""
        known_agents = self._agents[sort]
        project_by_agent = {
            (self.projects[name], agent, operator, kind): name for name, agent, operator, kind in agents
        }
        if new := sorted(project_by_agent.keys() - known_agents.keys()):
            rows = [
                (
                    agent[0], sort, "", *agent[1:3], CLASS_BITS[agent[3]], compute_salt(project_by_agent[agent]),
                    NO_SECTION,
                )
                for agent in new
            ]  # fmt: skip
            known_agents.update(zip(new, self._add_scopes(connection, rows), strict=True))

    def add_rules(self, connection: DuckConnection, rules: Set[RuleKey]) -> None:
        if new := sorted(rules - self._rules.keys()):
            new_ids = {rule: number for number, rule in enumerate(new, len(self._rules) + 1)}
            append_rows(connection, "rules", ["id", "rule", "version"], [(new_ids[rule], *rule) for rule in new])
            self._rules.update(new_ids)

    def add_deeper_sections(self, connection: DuckConnection, project: str, sections: Collection[str]) -> list[int]:
        """Stores sections below the first level. Returns the ids of those that are new."""
        return add_deeper_sections(connection, self._add_scopes, self.projects[project], project, sections)

    def _add_pages(self, connection: DuckConnection, views: Sequence[PageView], sort: int) -> None:
        project_by_page = {(self.projects[view.project], view.path): view.project for view in views}
        known_pages = self._pages[sort]
        if not (uncached := project_by_page.keys() - known_pages.keys()):
            return
        if len(known_pages) > self._max_cached_pages:
            known_pages, uncached = {}, set(project_by_page)
            self._pages[sort] = known_pages
        for project in {project for project, _ in uncached}:
            paths = [path for owner, path in uncached if owner == project]
            stored = find_scope_ids(connection, sort, project, paths)
            known_pages.update(((project, path), scope) for path, scope in stored.items())
            new = sorted(set(paths) - stored.keys())
            if new:
                self._add_new_pages(connection, project, project_by_page[project, new[0]], new, sort)

    def _add_new_pages(
        self, connection: DuckConnection, project_id: int, project: str, paths: list[str], sort: int
    ) -> None:
        sections = [NO_SECTION] * len(paths)
        if sort == PAGE_SCOPE:
            is_large = project in self._large_projects
            used_sections = self._used_sections.setdefault(project_id, set())
            if len(used_sections) > MAX_USED_SECTIONS:
                used_sections.clear()
            sections, has_unindexed = add_section_ids(
                connection, self._add_scopes, project_id, project, paths, is_large, used_sections
            )
            self._has_unindexed_sections |= has_unindexed
        rows = [
            (project_id, sort, path, "", "", 0, compute_salt(project, path, sort), section)
            for path, section in zip(paths, sections, strict=True)
        ]
        keys = [(project_id, path) for path in paths]
        self._pages[sort].update(zip(keys, self._add_scopes(connection, rows), strict=True))

    def _load_missing_paths(self, connection: DuckConnection, project: str) -> list[str]:
        rows = connection.execute(SELECT_MISSING_PATHS, {"project": self.projects[project]}).fetchall()
        return [path for (path,) in rows]

    def _add_scopes(self, connection: DuckConnection, rows: Sequence[tuple[object, ...]]) -> Iterable[int]:
        first_id = self._last_scope_id + 1
        append_rows(
            connection, "scopes", SCOPE_COLUMNS, [(scope_id, *row) for scope_id, row in enumerate(rows, first_id)]
        )
        self._last_scope_id += len(rows)
        return range(first_id, self._last_scope_id + 1)
