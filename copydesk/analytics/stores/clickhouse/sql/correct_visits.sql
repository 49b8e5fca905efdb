-- The visits of the affected visitors on the affected days, from the raw views of these days. Each class counts if at
-- least one view of it remains.
insert into corrected_visits (fold, project, visitor, sort, scope, day, bits)
select {fold:UInt64}, {project:String}, visitor, sort, scope, day, groupBitOr(kind)
from (
    select visitor, sort, scope, day, kind
    from (
        select
            visitor, toUInt16(intDiv(at, 86400000)) as day, kind, visited, toInt8(1) as sign
        from views
        where project = {project:String}
            and visitor in (select visitor from corrected_views where fold = {fold:UInt64} and visitor != 0)
            and toUInt16(intDiv(at, 86400000)) in (select day from corrected_views where fold = {fold:UInt64})
        union all
        select visitor, day, kind, visited, sign
        from corrected_views
        where fold = {fold:UInt64} and visitor != 0
    )
    array join visited.1 as sort, visited.2 as scope
    group by visitor, sort, scope, day, kind
    having sum(sign) > 0
)
group by visitor, sort, scope, day;
