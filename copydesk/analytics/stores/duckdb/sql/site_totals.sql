-- The visitors and views of several sites. A visitor is counted on their first day in the range.
with sites as (
    select id, name, site, ai from projects where name in (select unnest($names::varchar[]))
),
visitor_counts as (
    select scope as site, sum(human) as human, sum(ai) as ai, sum(total) as total
    from firsts
    where scope in (select site from sites) and day >= $first and day < $end and prev < $first
    group by scope
),
view_counts as (
    select scope as site, coalesce(sum(n) filter (kind = 1), 0) as human,
        coalesce(sum(n) filter (kind & sites.ai <> 0), 0) as ai
    from counts join sites on scope = sites.site
    where day >= $first and day < $end
    group by scope
)
select
    name, sites.ai, coalesce(visitor_counts.human, 0)::bigint, coalesce(visitor_counts.ai, 0)::bigint,
    coalesce(visitor_counts.total, 0)::bigint, view_counts.human::bigint, view_counts.ai::bigint
from sites join view_counts using (site) left join visitor_counts using (site)
where view_counts.human + view_counts.ai > 0
order by name;
