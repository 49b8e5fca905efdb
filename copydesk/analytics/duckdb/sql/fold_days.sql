-- The days of the keys with something fresh: as human (1), AI (2), either (4), before this fold and after it. Of what
-- was known, only what the fresh days can touch: for each kind the last day up to the first fresh one, and later days.
create or replace temp table days as
with starts as (
    select key, min(day) as first, any_value(scope) as scope from fresh group by key
),
known as (
    select history.key, history.day, history.bits, starts.first, scopes.id as scope, scopes.human, scopes.ai
    from history join starts using (key) join scopes on scopes.id = starts.scope
    where history.bits & (scopes.human | scopes.ai) <> 0
),
floors as (
    select
        key,
        least(
            max(day) filter (bits & human <> 0 and day <= first), max(day) filter (bits & ai <> 0 and day <= first)
        ) as floor
    from known group by key
),
touched as (
    select scope, key, day, who(bits, human, ai) as was, 0::utinyint as new
    from known join floors using (key)
    where day >= coalesce(floor, first)
    union all
    select scope, key, day, 0, who(bits, human, ai)
    from fresh join scopes on scopes.id = scope
    where bits & (human | ai) <> 0
)
select scope, key, day, bit_or(was) as was, bit_or(was | new) as now from touched group by all;
