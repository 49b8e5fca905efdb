-- The changes of the index for new days, for each of human (1), AI (2) and either (4). A new day gets a link to the
-- previous day. If the next day was stored before, its link now leads to the new day.
insert into firsts
with new_days as (
    select scope, key, day, now & ~was as new from changed_days where now <> was
),
placed as materialized (
    select
        scope, day, new,
        max(other_day) filter (other_day < day and now & 1 <> 0) as human,
        max(other_day) filter (other_day < day and now & 2 <> 0) as ai,
        max(other_day) filter (other_day < day and now & 4 <> 0) as either,
        max(other_day) filter (other_day < day and was & 1 <> 0) as human_was,
        max(other_day) filter (other_day < day and was & 2 <> 0) as ai_was,
        max(other_day) filter (other_day < day and was & 4 <> 0) as either_was,
        min(other_day) filter (other_day > day and now & 1 <> 0) as human_next,
        min(other_day) filter (other_day > day and now & 2 <> 0) as ai_next,
        min(other_day) filter (other_day > day and now & 4 <> 0) as either_next,
        min(other_day) filter (other_day > day and was & 1 <> 0) as human_known,
        min(other_day) filter (other_day > day and was & 2 <> 0) as ai_known,
        min(other_day) filter (other_day > day and was & 4 <> 0) as either_known
    from new_days join (select scope, key, day as other_day, was, now from changed_days) using (scope, key)
    group by scope, key, day, new
),
links as (
    select scope, day, case visitor_kind when 1 then human when 2 then ai else either end as prev, visitor_kind, 1 as n
    from placed, (values (1), (2), (4)) as kinds (visitor_kind)
    where new & visitor_kind <> 0
    union all
    select
        scope, case visitor_kind when 1 then human_next when 2 then ai_next else either_next end,
        if(n = 1, day, case visitor_kind when 1 then human_was when 2 then ai_was else either_was end), visitor_kind, n
    from placed, (values (1, 1), (1, -1), (2, 1), (2, -1), (4, 1), (4, -1)) as kinds (visitor_kind, n)
    where either_known is not null and new & visitor_kind <> 0 and case visitor_kind
        when 1 then human_next = human_known when 2 then ai_next = ai_known else either_next = either_known
    end
),
changes as (
    select
        scope, day, coalesce(prev, 0) as prev, coalesce(sum(n) filter (visitor_kind = 1), 0) as human,
        coalesce(sum(n) filter (visitor_kind = 2), 0) as ai, coalesce(sum(n) filter (visitor_kind = 4), 0) as total
    from links
    group by scope, day, prev
)
select project, scope, day, prev, human, ai, total
from changes join scopes on scopes.id = scope
where human <> 0 or ai <> 0 or total <> 0
order by day, prev;
