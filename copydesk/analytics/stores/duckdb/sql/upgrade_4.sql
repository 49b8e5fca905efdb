-- Visits move into sorted files when they are first needed; what a scope counts for is computed from the scope.
drop table if exists targets;
-- Adds where requests for missing pages came from. Earlier versions stored no such requests.
create table if not exists missing_referrers (
    project integer not null, scope integer not null, day usmallint not null, kind utinyint not null,
    referrer varchar not null, n integer not null, last bigint not null
);
