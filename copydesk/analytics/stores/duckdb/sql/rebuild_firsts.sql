-- The links of whole chains, for all days and not only new ones.
insert into firsts
with links as (
    select scope, day, coalesce(lag(day) over chain, 0) as prev, 0 as human, 0 as ai, $sign as total
    from visitor_days
    window chain as (partition by scope, key order by day)
    union all
    select scope, day, coalesce(lag(day) over chain, 0), $sign, 0, 0
    from visitor_days where now & 1 <> 0
    window chain as (partition by scope, key order by day)
    union all
    select scope, day, coalesce(lag(day) over chain, 0), 0, $sign, 0
    from visitor_days where now & 2 <> 0
    window chain as (partition by scope, key order by day)
),
changes as (
    select scope, day, prev, sum(human) as human, sum(ai) as ai, sum(total) as total
    from links
    group by scope, day, prev
)
select project, scope, day, prev, human, ai, total
from changes join scopes on scopes.id = scope
order by day, prev;
