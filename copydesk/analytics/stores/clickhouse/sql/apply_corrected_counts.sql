insert into counts
select project, sort, scope, day, kind, sum(sign) as n
from corrected_views
array join if(missing, [3], [0, 1, 2]) as sort, if(missing, [lost], [page, site, told]) as scope
where fold = {fold:UInt64}
    and {fold:UInt64} > (select max(number) from applied)
    and {fold:UInt64} > (select max(number) from carried where what = 'counts')
group by project, sort, scope, day, kind
having n != 0;
