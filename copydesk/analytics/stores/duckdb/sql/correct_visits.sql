-- The visits of the affected visitors on the affected days, from the raw views of these days.
insert into visits
with day_views as (
    select page, agent, visitor, (time // 86400000)::usmallint as day, kind::utinyint as kind
    from views
    where project = $project and seq <= $folded and visitor in (select visitor from affected_visitors)
        and (time // 86400000)::usmallint in (select day from affected_days)
)
select scope, xor(visitor, salt) as key, day, bit_or(scope_views.kind) as bits
from (
    select page as scope, visitor, day, kind from day_views
    union all
    select agent, visitor, day, kind from day_views
) as scope_views
join scopes on scopes.id = scope
group by all;
