insert into visits
select project, visitor, sort, scope, day, bits
from corrected_visits
where fold = {fold:UInt64} and {fold:UInt64} > (select max(number) from applied);
