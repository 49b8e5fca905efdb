-- A visitor is counted on the first day they appear in the range, which is the day whose previous one lies before it.
-- The site as a whole comes first, then the pages asked for and one more.
with found as (
    select scope, sum(human)::bigint as human, sum(ai)::bigint as ai, sum(total)::bigint as total
    from firsts
    where project = $project and day >= $first and day < $end and prev < $first
    group by scope
    having sum(total) > 0
),
chosen as (
    select
        sort, path, found.human, found.ai, total,
        case $by when 'human' then found.human when 'ai' then found.ai when 'total' then total else 0 end as figure
    from found join scopes on scopes.id = scope
    where sort = 1 or (sort = 0 and contains(lower(path), lower($search)))
),
placed as (
    select *, row_number() over (
        order by
            sort desc, if($descending, -figure, figure), if($by = 'path' and $descending, path, null) desc, path
    ) as place
    from chosen
)
select path, human, ai, total
from placed
where place = 1 or place between $offset + 2 and $offset + $limit + 2
order by place;
