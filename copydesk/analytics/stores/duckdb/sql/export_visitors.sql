-- The unique visitors of each page on a day.
select
    $day as date, path, sum(firsts.human) as human, sum(firsts.ai) as ai, sum(firsts.total) as total
from firsts join scopes on scopes.id = scope
where firsts.project = $project and day = $day and sort = 0
group by path
having sum(firsts.total) > 0
