-- The sections of this depth below a prefix ('' is the site); the first row, without a name, is all of them.
with pages as (
    select
        scope, any(path) as name, arrayFilter(part -> part != '', splitByChar('/', splitByChar('?', name)[1])) as parts,
        if(length(parts) >= {depth:UInt64}, concat('/', arrayStringConcat(arraySlice(parts, 1, {depth:UInt64}), '/')), '')
            as section
    from scopes
    where project = {project:String} and sort = 0
    group by scope
    having {prefix:String} = ''
        or concat('/', arrayStringConcat(arraySlice(parts, 1, {prefix_depth:UInt64}), '/')) = {prefix:String}
),
view_counts as (
    select section_or_all, sum(n) as views
    from counts inner join pages using (scope)
    array join arrayDistinct(['', section]) as section_or_all
    where project = {project:String} and sort = 0 and day >= {first:UInt16} and day < {end:UInt16}
        and (kind = 1 or bitAnd(kind, {ai:UInt8}) != 0)
    group by section_or_all
    having views > 0
),
visitor_counts as (
    select
        section_or_all, uniqExactIf(visitor, bitAnd(bits, 1) != 0) as human,
        uniqExactIf(visitor, bitAnd(bits, {ai:UInt8}) != 0) as ai,
        uniqExactIf(visitor, bitAnd(bits, bitOr(1, {ai:UInt8})) != 0) as total
    from visits inner join pages using (scope)
    array join arrayDistinct(['', section]) as section_or_all
    where project = {project:String} and sort = 0 and day >= {first:UInt16} and day < {end:UInt16}
    group by section_or_all
)
select section_or_all, human, ai, total, views
from view_counts left join visitor_counts using (section_or_all)
order by section_or_all != '', total desc, section_or_all
limit {offset:UInt64} + {limit:UInt64} + 2;
