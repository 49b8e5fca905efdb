-- The sections below the first level that are not in the index and have at least two pages: outer ones first, and of the
-- same depth those with the most views first.
with pages as (
    select id, list_filter(string_split(split_part(path, '?', 1), '/'), lambda part: part <> '') as parts
    from scopes
    where project = $project and sort = 0
),
view_counts as (
    select scope as id, sum(n)::bigint as views from counts
    where project = $project
    group by scope
),
depths as (
    select unnest(range(2, least(len(parts), $max_depth) + 1)) as depth, parts, coalesce(views, 0) as views
    from pages left join view_counts using (id)
)
select '/' || array_to_string(parts[1:depth], '/') as section
from depths
group by depth, section
having count(*) >= 2 and section not in (select path from scopes where project = $project and sort = 32)
order by depth, sum(views) desc, section
limit $limit;
