-- All days of the affected visitors: on the affected days, their visits are replaced.
select
    project, sort, scope, visitor, day, bits as before,
    if(day in (select day from corrected_views where fold = {fold:UInt64}), toUInt8(0), bits) as after
from visits
where project = {project:String}
    and visitor in (select visitor from corrected_views where fold = {fold:UInt64} and visitor != 0)
union all
select project, sort, scope, visitor, day, toUInt8(0) as before, bits as after
from corrected_visits
where fold = {fold:UInt64}
