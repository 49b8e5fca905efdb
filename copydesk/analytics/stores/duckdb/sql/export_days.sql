-- The days that have raw views or counts, with a fingerprint of each day's raw views and of its reports, and whether
-- all raw views are there. Rows are added up first, so that merging rows of a table changes no fingerprint. Sections are
-- left out: their fingerprint has that of the raw views.
with raw as (
    select
        time // 86400000 as day, count(*) as views,
        sum(hash(page, agent, rule, kind, time, visitor, host, referrer)) as fingerprint
    from views
    where project = $project and time >= $first::bigint * 86400000 and time < $end::bigint * 86400000
    group by day
),
day_counts as (
    select day, scope, kind, sum(n) as n from counts
    where project = $project and day >= $first and day < $end
    group by day, scope, kind
    having sum(n) <> 0
),
counted as (
    select day, sum(n) as views from day_counts
    where scope = (select site from projects where id = $project)
        or scope in (select id from scopes where project = $project and sort = 3)
    group by day
),
report_rows as (
    select day, hash(1, scope, kind, n) as row_hash from day_counts
    union all
    select day, hash(2, scope, sum(human), sum(ai), sum(total)) from firsts
    where project = $project and day >= $first and day < $end
        and scope not in (select id from scopes where project = $project and sort = 32)
    group by day, scope
    having sum(human) <> 0 or sum(ai) <> 0 or sum(total) <> 0
    union all
    select day, hash(3, scope, kind, referrer, sum(n), max(last)) from missing_referrers
    where project = $project and day >= $first and day < $end
    group by day, scope, kind, referrer
    having sum(n) <> 0
),
reports as (
    select day, sum(row_hash) || '-' || (select ai from projects where id = $project) as fingerprint
    from report_rows group by day
)
select
    day::integer, coalesce(raw.views || '-' || raw.fingerprint, ''), coalesce(reports.fingerprint, ''),
    coalesce(raw.views, 0) >= coalesce(counted.views, 0)
from raw full join reports using (day) left join counted using (day)
order by day
