-- The days of all projects that have many raw views and no valid stored hours, the latest first: how many views of the
-- site are folded, how many of them were when the stored hours were counted (null if none are stored), and whether the day
-- is finished. rule_counts has only days of which raw views are stored.
with raw_views as (
    select project, day from rule_counts where agent in (select id from scopes where sort = 2)
    group by project, day having sum(n) >= $min_views
),
folded as (
    select project, day, sum(n)::bigint as views from counts where scope in (select site from projects)
    group by project, day
)
select projects.name, day, folded.views, hour_counts.views, day < (select max(day) from folded)
from raw_views join folded using (project, day) join projects on projects.id = project
left join (from hour_counts where hour = -1) as hour_counts using (project, day)
where hour_counts.views is distinct from folded.views
order by day desc, projects.name;
