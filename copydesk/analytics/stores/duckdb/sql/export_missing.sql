-- The missing pages that people or AI requested on a day, with up to 10 referrers of each. The path '' stands for all
-- paths beyond the limit of missing paths.
with counted as (
    select 1 | ai as kinds from projects where id = $project
),
missing_pages as (
    select id as scope, path from scopes where project = $project and sort = 3
),
request_counts as (
    select scope, sum(n) as requests from counts
    where project = $project and day = $day and kind & (select kinds from counted) <> 0
    group by scope
    having sum(n) > 0
),
visitor_counts as (
    select scope, sum(human) as human, sum(ai) as ai, sum(total) as total
    from firsts where project = $project and day = $day
    group by scope
),
referrer_counts as (
    select
        scope, referrer, sum(n) as requests, max(last) as last,
        row_number() over (partition by scope order by referrer = '', sum(n) desc, referrer) as place
    from missing_referrers
    where project = $project and day = $day and kind & (select kinds from counted) <> 0
    group by scope, referrer
    having sum(n) > 0
),
details as (
    select
        scope, max(last) as last,
        string_agg(referrer || ' ' || requests, chr(10) order by place)
            filter (place <= 10 and referrer <> '') as referrers
    from referrer_counts group by scope
)
select
    $day as date, path, coalesce(human, 0) as human, coalesce(ai, 0) as ai, coalesce(total, 0) as total, requests,
    last as "lastSeenAt", referrers
from request_counts join missing_pages using (scope)
left join visitor_counts using (scope) left join details using (scope)
