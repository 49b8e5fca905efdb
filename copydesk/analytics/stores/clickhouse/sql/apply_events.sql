insert into events
select project, assumeNotNull(event)
from inbox
where batch in {batches:Array(UInt128)} and event is not null and {fold:UInt64} > (select max(number) from applied);
