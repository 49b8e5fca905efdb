-- Visitors and views by hour, and in the hour -1 of all hours. Requests for missing pages, whose agent has the sort 4,
-- are not views.
select
    if(grouping(hour) = 1, -1, hour)::bigint,
    count(distinct visitor) filter (kind = 1), count(distinct visitor) filter (kind & $ai <> 0),
    count(distinct visitor), count(*) filter (kind = 1), count(*) filter (kind & $ai <> 0)
from (
    select time // 3600000 as hour, visitor, views.kind
    from views join scopes on scopes.id = views.agent
    where views.project = $project and time >= $first and time < $end and views.kind & ($ai | 1) <> 0
        and scopes.sort = 2 and seq <= (select max(upto) from folds)
) as counted_views
group by grouping sets ((hour), ())
order by 1;
