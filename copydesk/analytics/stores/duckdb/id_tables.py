"""The numbers that stand for projects, pages, agents and rules, given out as their names are first logged."""

from collections.abc import Iterable, Sequence
from hashlib import blake2b

from copydesk.analytics.page_view import View
from copydesk.analytics.stores.base import AI, BITS
from copydesk.analytics.stores.duckdb.database import Connection

PAGE, SITE, AGENT = 0, 1, 2
SCOPE = ["id", "project", "sort", "path", "agent", "operator", "kind", "salt"]
MOST_PAGES = 100_000
"""Pages remembered; beyond it they are looked up anew."""
Agent = tuple[int, str, str, str]
Rule = tuple[str, str]
Row = tuple[int, int, int, int, int, int, int, int | None, str, str]
VIEW = ["seq", "project", "page", "agent", "rule", "kind", "time", "visitor", "host", "referrer"]


class Names:
    """What is stored as of the writer's transaction; made anew after one has failed."""

    def __init__(self, connection: Connection, most_pages: int) -> None:
        self._most_pages = most_pages
        ask = connection.execute
        self.projects: dict[str, int] = dict(ask("select name, id from projects").fetchall())
        kinds = {bit: kind for kind, bit in BITS.items()}
        found = ask("select project, agent, operator, kind, id from scopes where sort = 2").fetchall()
        self._agents: dict[Agent, int] = {
            (project, agent, operator, kinds[kind]): scope for project, agent, operator, kind, scope in found
        }
        found = ask("select rule, version, id from rules").fetchall()
        self._rules: dict[Rule, int] = {(rule, version): number for rule, version, number in found}
        self._pages: dict[tuple[int, str], int] = {}
        [(self._highest,)] = ask("select coalesce(max(id), 0) from scopes").fetchall()

    def rows(self, connection: Connection, views: Sequence[View], first: int) -> list[Row]:
        """As the log keeps the views, whose projects are known, numbered on; other names that are new are stored."""
        try:
            return self._rows(views, first)
        except KeyError:
            self._add_agents(connection, views)
            self._add_rules(connection, views)
            self._add_pages(connection, views)
            return self._rows(views, first)

    def _rows(self, views: Sequence[View], first: int) -> list[Row]:
        projects, pages, agents, rules = self.projects, self._pages, self._agents, self._rules
        rows: list[Row] = []
        for seq, view in enumerate(views, first):
            name, path, at, kind, agent, operator, rule, table, visitor, host, referrer, _, _ = view
            project = projects[name]
            page, agent_number = pages[project, path], agents[project, agent, operator, kind]
            number = rules[rule, table]
            rows.append((seq, project, page, agent_number, number, BITS[kind], at, visitor, host, referrer))
        return rows

    def add_projects(self, connection: Connection, names: set[str]) -> None:
        if new := sorted(names - self.projects.keys()):
            highest, ai = max(self.projects.values(), default=0), sum(BITS[kind] for kind in AI)
            added = {name: highest + number for number, name in enumerate(new, 1)}
            sites = self._add_scopes(connection, [(added[name], SITE, "", "", "", 0, salt(name)) for name in new])
            rows = [(added[name], name, site, ai) for name, site in zip(new, sites, strict=True)]
            append(connection, "projects", ["id", "name", "site", "ai"], rows)
            self.projects.update(added)

    def _add_agents(self, connection: Connection, views: Sequence[View]) -> None:
        named = {(v.project, v.agent, v.operator, v.kind) for v in views}
        met = {(self.projects[name], agent, operator, kind): name for name, agent, operator, kind in named}
        if new := sorted(met.keys() - self._agents.keys()):
            rows = [(agent[0], AGENT, "", *agent[1:3], BITS[agent[3]], salt(met[agent])) for agent in new]
            self._agents.update(zip(new, self._add_scopes(connection, rows), strict=True))

    def _add_rules(self, connection: Connection, views: Sequence[View]) -> None:
        if new := sorted({(view.rule, view.table) for view in views} - self._rules.keys()):
            added = {rule: number for number, rule in enumerate(new, len(self._rules) + 1)}
            append(connection, "rules", ["id", "rule", "version"], [(added[rule], *rule) for rule in new])
            self._rules.update(added)

    def _add_pages(self, connection: Connection, views: Sequence[View]) -> None:
        met = {(self.projects[view.project], view.path): view.project for view in views}
        if not (unsure := met.keys() - self._pages.keys()):
            return
        if len(self._pages) > self._most_pages:
            self._pages, unsure = {}, set(met)
        for project in {project for project, _ in unsure}:
            paths = [path for owner, path in unsure if owner == project]
            found = connection.execute(
                "select path, id from scopes where sort = 0 and project = $project and path in (select unnest($paths))",
                {"project": project, "paths": paths},
            )
            self._pages.update(((project, path), scope) for path, scope in found.fetchall())
        new = sorted(unsure - self._pages.keys())
        rows = [(page[0], PAGE, page[1], "", "", 0, salt(met[page], page[1])) for page in new]
        self._pages.update(zip(new, self._add_scopes(connection, rows), strict=True))

    def _add_scopes(self, connection: Connection, rows: Sequence[tuple[object, ...]]) -> Iterable[int]:
        first = self._highest + 1
        append(connection, "scopes", SCOPE, [(scope, *row) for scope, row in enumerate(rows, first)])
        self._highest += len(rows)
        return range(first, self._highest + 1)


def salt(project: str, path: str | None = None) -> int:
    """Depends on the names alone, so that every copy agrees on it. Agents share their site's."""
    named = project if path is None else f"{project}\0{path}"
    return int.from_bytes(blake2b(named.encode(), digest_size=8).digest()) >> 1


def append(connection: Connection, table: str, columns: list[str], rows: Sequence[Sequence[object]]) -> None:
    if rows:
        appender = connection.appender(table, columns=columns)
        appender.append_rows(rows)
        appender.flush()
