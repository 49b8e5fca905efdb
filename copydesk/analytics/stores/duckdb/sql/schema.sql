create table projects (
    id integer not null, name varchar not null, site integer not null, ai utinyint not null
);

-- Things that visitors are counted for: pages (sort = 0), whole sites (1), agents with their class (2) and missing pages
-- (3), that is, paths whose requests found no page. An agent that requested a missing page (4) has no visits and counts:
-- missing pages count for themselves only. The missing page '' stands for all beyond the limit of missing pages. Kinds of
-- sources of people (5): their number is in the column kind. Hosts that people came from (5 plus the number of their
-- kind); '' stands for all of the kind that are beyond the limit of hosts. Sections (32): all of the first level, and
-- deeper ones that are in the index. The column section is the innermost section of a page, or the next section around a
-- section; 0 means none.
create table scopes (
    id integer not null, project integer not null, sort utinyint not null,
    path varchar not null, agent varchar not null, operator varchar not null, kind utinyint not null,
    salt bigint not null, section integer not null
);

-- Rules that classified views, with the version of the agent table.
create table rules (id integer not null, rule varchar not null, version varchar not null);

-- source: the host that the view came from, or the kind of source if that has no hosts; 0 if it is no arrival. The event
-- of a view is in the table events.
create table views (
    seq bigint not null, project integer not null, page integer not null, agent integer not null,
    kind integer not null, rule integer not null, time bigint not null, visitor bigint,
    host varchar not null, referrer varchar not null, source integer not null
);

-- Known events. seq: the number of the event's view.
create table events (project integer not null, id bigint not null, seq bigint not null);

-- The most recent visits: the days on which visitors came. The scope is a page, an agent or a source, and the key is the
-- visitor xor the scope's salt. Agents have the salt of their site, because the visits of a site are those of its
-- agents. Sections and sources have it too, because keys that visits share are stored and searched once. The bits of rows
-- with the same scope, key and day are or-ed. Older visits are in files, which visit_runs lists.
create table visits (
    scope integer not null, key bigint not null, day usmallint not null, bits utinyint not null
);
create table visit_runs (id integer not null, rows bigint not null);

-- Sections below the first level whose visits from before they became scopes are not all stored yet.
create table incomplete_sections (scope integer not null);

-- The index: how many visitors came on this day and previously on day prev (0 means never), as human, as AI and as
-- either. Rows with the same key add up, and a number may be negative.
create table firsts (
    project integer not null, scope integer not null, day usmallint not null, prev usmallint not null,
    human integer not null, ai integer not null, total integer not null
);

create table counts (
    project integer not null, scope integer not null, day usmallint not null, kind utinyint not null, n integer not null
);

-- Where requests for missing pages came from, and when the last one was. Rows with the same key add up.
create table missing_referrers (
    project integer not null, scope integer not null, day usmallint not null, kind utinyint not null,
    referrer varchar not null, n integer not null, last bigint not null
);

-- Raw views summed up by page, agent and, of people, source (0 means none), and by agent and rule. The mark summarized
-- is the number of the last view that is in them. Rows with the same key add up.
create table page_counts (
    project integer not null, page integer not null, day usmallint not null, agent integer not null,
    source integer not null, n integer not null
);
create table rule_counts (
    project integer not null, agent integer not null, rule integer not null, day usmallint not null, n integer not null
);

-- The visitors of raw views by page, agent and source (0 means none). The mark visitors_copied is the number of the last
-- view that is in it. Copied in parts that are sorted by page; the same row may occur several times. Choosing the
-- compression saves the time in which DuckDB would find it.
create table page_visitors (
    project integer not null,
    page integer not null using compression rle,
    agent integer not null using compression rle,
    source integer not null using compression rle,
    day usmallint not null using compression bitpacking,
    visitor bigint not null using compression uncompressed
);

-- Finished days with many views, counted from raw views: visitors and views by hour of the day, and of the whole day in the
-- hour -1. views: how many views of the site the table counts had for the day at that time. If it has another number now,
-- the rows are not valid. Each transaction that changes or deletes stored views, or a project's AI classes, deletes the
-- rows of the days that it affects.
create table hour_counts (
    project integer not null, day usmallint not null, views bigint not null, hour tinyint not null,
    human_visitors integer not null, ai_visitors integer not null, visitors integer not null,
    human_views integer not null, ai_views integer not null
);

-- The numbers of the last views of folds. The greatest is the last folded view; the others are deleted now and then,
-- because appending a row costs less than changing one.
create table folds (upto ubigint not null);
insert into folds values (0);

-- schema: the version of the tables. view_changes: the number of transactions that changed or deleted stored views, or
-- counted them again. event_base, event_tail: the ids of the files that have the filter of known events,
-- event_last: the number of the last view whose event is in them; none exists if there are no valid files. Each
-- transaction that deletes events deletes these three. The others: the number of rows after the table's last compaction.
create table marks (name varchar not null, value ubigint not null);
insert into marks
values
    ('summarized', 0), ('visitors_copied', 0), ('view_changes', 0), ('firsts', 0), ('counts', 0),
    ('missing_referrers', 0), ('page_counts', 0), ('rule_counts', 0);
