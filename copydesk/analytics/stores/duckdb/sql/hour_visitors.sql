-- The visitors of each hour of a day, and their views; -1 stands for views without a visitor. Requests for missing pages,
-- whose agent has the sort 4, are not views.
select
    coalesce(visitor, -1) as visitor, (time // 3600000 % 24)::integer as hour, count(*) filter (kind = 1) as human,
    count(*) filter (kind & $ai <> 0) as ai
from views
where project = $project and time >= $first and time < $end and kind & ($ai | 1) <> 0 and seq > $after
    and seq <= $folded and agent in (select id from scopes where sort = 2)
group by all;
