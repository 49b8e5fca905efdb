-- The changes of the index for new days, for each of human (1), AI (2) and either (4). A new day gets a link to the
-- previous day. If the next day was stored before, its link now leads to the new day.
insert into firsts
with fresh as (
    select scope, key, day, now & ~was as new from days where now <> was
),
placed as materialized (
    select
        scope, day, new,
        max(there) filter (there < day and now & 1 <> 0) as human,
        max(there) filter (there < day and now & 2 <> 0) as ai,
        max(there) filter (there < day and now & 4 <> 0) as either,
        max(there) filter (there < day and was & 1 <> 0) as human_was,
        max(there) filter (there < day and was & 2 <> 0) as ai_was,
        max(there) filter (there < day and was & 4 <> 0) as either_was,
        min(there) filter (there > day and now & 1 <> 0) as human_next,
        min(there) filter (there > day and now & 2 <> 0) as ai_next,
        min(there) filter (there > day and now & 4 <> 0) as either_next,
        min(there) filter (there > day and was & 1 <> 0) as human_known,
        min(there) filter (there > day and was & 2 <> 0) as ai_known,
        min(there) filter (there > day and was & 4 <> 0) as either_known
    from fresh join (select scope, key, day as there, was, now from days) using (scope, key)
    group by scope, key, day, new
),
links as (
    select scope, day, case who when 1 then human when 2 then ai else either end as prev, who, 1 as n
    from placed, (values (1), (2), (4)) as kinds (who)
    where new & who <> 0
    union all
    select
        scope, case who when 1 then human_next when 2 then ai_next else either_next end,
        if(n = 1, day, case who when 1 then human_was when 2 then ai_was else either_was end), who, n
    from placed, (values (1, 1), (1, -1), (2, 1), (2, -1), (4, 1), (4, -1)) as kinds (who, n)
    where either_known is not null and new & who <> 0 and case who
        when 1 then human_next = human_known when 2 then ai_next = ai_known else either_next = either_known
    end
),
changes as (
    select
        scope, day, coalesce(prev, 0) as prev, coalesce(sum(n) filter (who = 1), 0) as human,
        coalesce(sum(n) filter (who = 2), 0) as ai, coalesce(sum(n) filter (who = 4), 0) as total
    from links
    group by scope, day, prev
)
select project, scope, day, prev, human, ai, total
from changes join scopes on scopes.id = scope
where human <> 0 or ai <> 0 or total <> 0
order by day, prev;
