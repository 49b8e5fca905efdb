-- The new visits: scope, visitor key, day and classes.
create or replace temp table came as
with seen as (
    select page, agent, visitor, (time // 86400000)::usmallint as day, kind::utinyint as kind
    from views
    where seq > $after and seq <= $upto and visitor is not null
)
select scope, xor(visitor, salt) as key, day, bit_or(seen.kind) as bits
from (
    select page as scope, visitor, day, kind from seen
    union all
    select agent, visitor, day, kind from seen
) as seen
join scopes on scopes.id = scope
group by all;
