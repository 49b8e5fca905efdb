create or replace temp table fresh as
select came.scope, came.key, came.day, came.bits & ~coalesce(history.bits, 0::utinyint) as bits
from came
left join history using (key, day)
where came.bits & ~coalesce(history.bits, 0::utinyint) <> 0;
