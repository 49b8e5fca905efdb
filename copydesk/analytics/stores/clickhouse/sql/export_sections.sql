-- The visitors and views of each section of the first level on a day.
with pages as (
    select
        scope, any(path) as name,
        arrayFilter(part -> part != '', splitByChar('/', splitByChar('?', name)[1])) as parts,
        concat('/', parts[1]) as section
    from scopes
    where project = {project:String} and sort = 0
    group by scope
    having length(parts) > 0
),
view_counts as (
    select section, sum(n) as views
    from counts inner join pages using (scope)
    where project = {project:String} and sort = 0 and day = {day:UInt16}
        and (kind = 1 or bitAnd(kind, {ai:UInt8}) != 0)
    group by section
    having views > 0
),
visitor_counts as (
    select
        section, uniqExactIf(visitor, bitAnd(bits, 1) != 0) as human,
        uniqExactIf(visitor, bitAnd(bits, {ai:UInt8}) != 0) as ai,
        uniqExactIf(visitor, bitAnd(bits, bitOr(1, {ai:UInt8})) != 0) as total
    from visits inner join pages using (scope)
    where project = {project:String} and sort = 0 and day = {day:UInt16}
    group by section
)
select {day:UInt16} as date, section, human, ai, total, views
from view_counts left join visitor_counts using (section)
