-- The visitors of a page by agent, and of people by source; the other of the two is null. The views after
-- $after are not copied yet. Finds distinct visitors first, because the two groups need the same ones.
with page_views as (
    select agent, source, visitor from page_visitors
    where project = $project and page = $page and day >= $first and day < $end
    union all
    select agent, source, visitor from views
    where seq > $after and seq <= $folded and project = $project and page = $page and time >= $first_at and time < $end_at
),
visits as (
    select distinct agent, if(list_contains($people::integer[], agent), source, 0) as source, visitor from page_views
)
select agent, source, count(distinct visitor) from visits group by grouping sets ((agent), (source));
