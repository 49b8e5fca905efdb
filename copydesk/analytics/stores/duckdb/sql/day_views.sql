-- The hour, the class and the visitor of each view of a day of several projects; -1 stands for views without a visitor.
-- Requests for missing pages, whose agent has the sort 4, are not views.
select
    project, (time // 3600000 % 24)::integer as hour, kind::utinyint as kind, coalesce(visitor, -1) as visitor
from views
where project in (select unnest($projects::integer[])) and time >= $first and time < $end and seq <= $folded
    and agent in (select id from scopes where sort = 2);
