-- What the days change in the index: the links of each key's chain after, less those before.
insert into firsts
with several as (
    select key from days group by key having count(*) > 1
),
chained as (
    select
        scope, day, was, now,
        max(day) filter (was & 1 <> 0) over earlier as human_was,
        max(day) filter (now & 1 <> 0) over earlier as human_now,
        max(day) filter (was & 2 <> 0) over earlier as ai_was,
        max(day) filter (now & 2 <> 0) over earlier as ai_now,
        max(day) filter (was <> 0) over earlier as any_was,
        max(day) filter (now <> 0) over earlier as any_now
    from days semi join several using (key)
    window earlier as (partition by key order by day rows between unbounded preceding and 1 preceding)
    union all by name
    select scope, day, was, now from days anti join several using (key)
),
alike as (
    select
        scope, day, was, now, coalesce(human_was, 0) as human_was, coalesce(human_now, 0) as human_now,
        coalesce(ai_was, 0) as ai_was, coalesce(ai_now, 0) as ai_now, coalesce(any_was, 0) as any_was,
        coalesce(any_now, 0) as any_now, count(*)::integer as n
    from chained
    group by all
),
links as (
    select scope, day, unnest([
        {'prev': human_now, 'human': if(now & 1 <> 0, n, 0), 'ai': 0, 'total': 0},
        {'prev': ai_now, 'human': 0, 'ai': if(now & 2 <> 0, n, 0), 'total': 0},
        {'prev': any_now, 'human': 0, 'ai': 0, 'total': if(now <> 0, n, 0)},
        {'prev': human_was, 'human': if(was & 1 <> 0, -n, 0), 'ai': 0, 'total': 0},
        {'prev': ai_was, 'human': 0, 'ai': if(was & 2 <> 0, -n, 0), 'total': 0},
        {'prev': any_was, 'human': 0, 'ai': 0, 'total': if(was <> 0, -n, 0)}
    ], recursive := true)
    from alike
),
changes as (
    select scope, day, prev, sum(human) as human, sum(ai) as ai, sum(total) as total
    from links
    group by scope, day, prev
    having sum(human) <> 0 or sum(ai) <> 0 or sum(total) <> 0
)
select project, scope, day, prev, changes.human, changes.ai, total
from changes join scopes on scopes.id = scope
order by day, prev;
