-- The pages below a prefix ('' is the site), with the section of each that has this depth ('' if it has none), and their
-- views by people and AI in the range.
with pages as (
    select id, path, salt, list_filter(string_split(split_part(path, '?', 1), '/'), lambda part: part <> '') as parts
    from scopes
    where project = $project and sort = 0
),
view_counts as (
    select scope as id, sum(n)::bigint as views from counts
    where project = $project and day >= $first and day < $end
        and kind & (1 | (select ai from projects where id = $project)) <> 0
    group by scope
    having sum(n) > 0
)
select
    id, salt, if(len(parts) >= $depth, '/' || array_to_string(parts[1:$depth], '/'), '') as section, views
from pages join view_counts using (id)
where $prefix = '' or '/' || array_to_string(parts[1:$prefix_depth], '/') = $prefix;
