insert into counts
select project, sort, scope, day, kind, sum(sign) as n
from corrected_views
array join
    arrayConcat(visited.1, if(missing, [], [1])) as sort, arrayConcat(visited.2, if(missing, [], [site])) as scope
where fold = {fold:UInt64}
    and {fold:UInt64} > (select max(number) from applied)
    and {fold:UInt64} > (select max(number) from carried where what = 'counts')
group by project, sort, scope, day, kind
having n != 0;
