-- The visitors and views of the whole site on a day: one row, or none if neither people nor AI came.
with site as (
    select site, ai from projects where id = $project
),
view_counts as (
    select
        coalesce(sum(n) filter (kind = 1), 0) as human,
        coalesce(sum(n) filter (kind & (select ai from site) <> 0), 0) as ai
    from counts where project = $project and day = $day and scope = (select site from site)
),
visitor_counts as (
    select coalesce(sum(human), 0) as human, coalesce(sum(ai), 0) as ai, coalesce(sum(total), 0) as total
    from firsts where project = $project and day = $day and scope = (select site from site)
)
select
    $day as date, visitor_counts.human as human, visitor_counts.ai as ai, visitor_counts.total as total,
    view_counts.human as "viewsHuman", view_counts.ai as "viewsAi", view_counts.human + view_counts.ai as "viewsTotal"
from view_counts cross join visitor_counts
where view_counts.human + view_counts.ai > 0
