-- The views of a page by agent and, of people, by source. The views after $after are not in the sums yet.
with page_views as (
    select agent, source, n from page_counts
    where project = $project and page = $page and day >= $first and day < $end
    union all
    select agent, if(kind = 1, source, 0), 1 from views
    where seq > $after and seq <= $folded and page = $page and time >= $first_at and time < $end_at
),
sums as (
    select agent, source, sum(n)::bigint as views from page_views group by all
)
select
    sums.agent, agents.agent, agents.operator, agents.kind, sums.source, coalesce(sources.kind, 0),
    coalesce(sources.path, ''), views
from sums
join scopes as agents on agents.id = sums.agent
left join scopes as sources on sources.id = sums.source;
