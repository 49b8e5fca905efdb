insert into firsts
select project, sort, scope, day, prev, sum(human) as human, sum(ai) as ai, sum(total) as total
from staged
where fold = {fold:UInt64}
    and {fold:UInt64} > (select max(number) from applied)
    and {fold:UInt64} > (select max(number) from carried where what = 'firsts')
group by project, sort, scope, day, prev
having human != 0 or ai != 0 or total != 0;
