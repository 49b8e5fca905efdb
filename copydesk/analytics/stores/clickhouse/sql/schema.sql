-- New views, in batches. A batch exists once it is committed in the main database. The first 48 bits of a batch id are
-- its creation time in milliseconds, so that one insert is one part, and ten minutes of the log can be dropped at once.
create table if not exists inbox (
    batch UInt128, project LowCardinality(String), path String, at Int64, kind UInt8,
    agent String, operator String, rule String, version String,
    visitor UInt64, host String, referrer String, event Nullable(UInt64), missing UInt8,
    source String, source_kind UInt8,
    day UInt16 materialized intDiv(at, 86400000),
    page UInt64 materialized sipHash64(project, 'page', path),
    lost UInt64 materialized sipHash64(project, 'missing', path),
    site UInt64 materialized sipHash64(project, 'site'),
    told UInt64 materialized sipHash64(project, 'agent', agent, operator, kind),
    visited Array(Tuple(UInt8, UInt64, String)) alias $visited
)
engine = MergeTree
partition by toUInt64(intDiv(bitShiftRight(batch, 80), 600000))
order by batch
settings non_replicated_deduplication_window = 10000, fsync_after_insert = 1, fsync_part_directory = 1;

-- Folded raw views. visitor = 0 means that the view has no visitor. missing = 1 means that the page did not exist: such
-- requests count for the missing page only. source is the host that the view came from, and source_kind the number of its
-- kind; 0 if it is no arrival. visited are the scopes that the view counts for, with their names.
create table if not exists views (
    project LowCardinality(String), at Int64, path String, kind UInt8,
    agent LowCardinality(String), operator LowCardinality(String), rule LowCardinality(String),
    version LowCardinality(String), visitor UInt64, host LowCardinality(String), referrer LowCardinality(String),
    event Nullable(UInt64), missing UInt8, source LowCardinality(String), source_kind UInt8,
    visited Array(Tuple(UInt8, UInt64, String)) alias $visited
)
engine = MergeTree
partition by toYYYYMM(fromUnixTimestamp64Milli(at, 'UTC'))
order by (project, at)
settings non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- A small index granularity, because queries look up single ids.
create table if not exists events (project LowCardinality(String), id UInt64)
engine = ReplacingMergeTree
order by (project, id)
settings index_granularity = 256, non_replicated_deduplication_window = 1000, fsync_after_insert = 1,
    fsync_part_directory = 1;

-- Names of scopes, by a hash of project and name: pages (sort = 0), agents with their class (2) and missing
-- pages (3). Sites (1) have no name. The missing page '' stands for all beyond the limit of missing pages. Kinds of
-- sources of people (5): the number is in the column kind. Hosts that people came from (5 plus the number of their
-- kind); '' stands for all of the kind that are beyond the limit of hosts.
create table if not exists scopes (
    project LowCardinality(String), sort UInt8, scope UInt64, path String, agent String, operator String, kind UInt8
)
engine = ReplacingMergeTree
order by (project, sort, scope)
settings non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- The days on which a visitor visited a page, visited as an agent, or came from a host. The visits of a site are those of
-- its agents, and the visits from a kind of sources those from its hosts. The
-- order keeps all rows of a visitor together.
create table if not exists visits (
    project LowCardinality(String), visitor UInt64, sort UInt8, scope UInt64, day UInt16,
    bits SimpleAggregateFunction(groupBitOr, UInt8)
)
engine = AggregatingMergeTree
order by (project, visitor, sort, scope, day)
settings index_granularity = 1024, non_replicated_deduplication_window = 1000, fsync_after_insert = 1,
    fsync_part_directory = 1;

-- The index: how many visitors came on this day and previously on day prev (0 means never), as human, as AI and as
-- either. Rows with the same key add up, and a number may be negative.
create table if not exists firsts (
    project LowCardinality(String), sort UInt8, scope UInt64, day UInt16, prev UInt16,
    human Int64, ai Int64, total Int64
)
engine = SummingMergeTree
order by (project, sort, day, prev, scope)
settings non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

create table if not exists counts (
    project LowCardinality(String), sort UInt8, scope UInt64, day UInt16, kind UInt8, n Int64
)
engine = SummingMergeTree
order by (project, sort, day, scope, kind)
settings non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- Where requests for missing pages came from, and when the last one was.
create table if not exists missing_referrers (
    project LowCardinality(String), scope UInt64, day UInt16, kind UInt8, referrer String,
    n SimpleAggregateFunction(sum, Int64), last SimpleAggregateFunction(max, Int64)
)
engine = AggregatingMergeTree
order by (project, day, scope, kind, referrer)
settings non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- The changes that a fold will add to firsts, until its plan is applied.
create table if not exists staged (
    fold UInt64, made DateTime default now(), project LowCardinality(String), sort UInt8, scope UInt64,
    day UInt16, prev UInt16, human Int64, ai Int64, total Int64
)
engine = MergeTree
partition by fold
order by (project, sort, day, prev, scope)
settings non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- The events whose views a correction withdraws; found = 1 if there is a raw view.
create table if not exists withdrawn_events (fold UInt64, id UInt64, found UInt8)
engine = MergeTree
partition by fold
order by id
settings non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- The classes that a correction gives to the views of other classes.
create table if not exists new_classes (
    fold UInt64, rule String, agent String, operator String, kind UInt8,
    new_rule String, new_agent String, new_operator String, new_kind UInt8, new_version String
)
engine = MergeTree
partition by fold
order by (rule, agent, operator, kind)
settings non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- The raw views that a correction deletes (sign = -1) and inserts (1), until its plan is applied.
create table if not exists corrected_views (
    fold UInt64, sign Int8, project LowCardinality(String), at Int64, path String, kind UInt8,
    agent LowCardinality(String), operator LowCardinality(String), rule LowCardinality(String),
    version LowCardinality(String), visitor UInt64, host LowCardinality(String), referrer LowCardinality(String),
    event Nullable(UInt64), missing UInt8, source LowCardinality(String), source_kind UInt8,
    day UInt16 materialized intDiv(at, 86400000),
    page UInt64 materialized sipHash64(project, 'page', path),
    lost UInt64 materialized sipHash64(project, 'missing', path),
    site UInt64 materialized sipHash64(project, 'site'),
    told UInt64 materialized sipHash64(project, 'agent', agent, operator, kind),
    visited Array(Tuple(UInt8, UInt64, String)) alias $visited
)
engine = MergeTree
partition by fold
order by (visitor, at)
settings non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- The visits of the visitors of corrected views on the days of corrected views, as they are after the correction.
create table if not exists corrected_visits (
    fold UInt64, project LowCardinality(String), visitor UInt64, sort UInt8, scope UInt64, day UInt16, bits UInt8
)
engine = MergeTree
partition by fold
order by (visitor, sort, scope, day)
settings non_replicated_deduplication_window = 1000, fsync_after_insert = 1, fsync_part_directory = 1;

-- The numbers of applied folds, which are never applied again.
create table if not exists applied (number UInt64)
engine = ReplacingMergeTree(number)
order by tuple()
settings fsync_after_insert = 1, fsync_part_directory = 1;

-- The last fold that was applied to each table where applying twice would count twice.
create table if not exists carried (number UInt64, what LowCardinality(String))
engine = ReplacingMergeTree(number)
order by what
settings fsync_after_insert = 1, fsync_part_directory = 1;

create table if not exists schema (number UInt32)
engine = ReplacingMergeTree(number)
order by tuple();
