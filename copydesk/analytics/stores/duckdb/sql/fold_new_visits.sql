-- The new visits: scope, visitor key, day and classes.
create or replace temp table new_visits as
with new_views as (
    select page, agent, visitor, (time // 86400000)::usmallint as day, kind::utinyint as kind
    from views
    where seq > $after and seq <= $upto and visitor is not null
)
select scope, xor(visitor, salt) as key, day, bit_or(scope_views.kind) as bits
from (
    select page as scope, visitor, day, kind from new_views
    union all
    select agent, visitor, day, kind from new_views
) as scope_views
join scopes on scopes.id = scope
group by all;
