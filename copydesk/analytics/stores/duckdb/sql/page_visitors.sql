-- The visitors of a page by agent, and of people by source; the other of the two is null.
select agent, source, count(distinct visitor)
from (
    select agent, if(kind = 1, coalesce(source, 0), 0) as source, visitor from views
    where seq <= $folded and page = $page and time >= $first_at and time < $end_at
) as page_views
group by grouping sets ((agent), (source));
