-- The views of each page on a day, by people and by AI.
with views_by_page as (
    select
        path, coalesce(sum(n) filter (counts.kind = 1), 0) as human,
        coalesce(sum(n) filter (counts.kind & (select ai from projects where id = $project) <> 0), 0) as ai
    from counts join scopes on scopes.id = scope
    where counts.project = $project and day = $day and sort = 0
    group by path
)
select $day as date, path, human, ai, human + ai as total from views_by_page where human + ai > 0
