insert into scopes
select project, 2, told, '', any(agent), any(operator), any(kind)
from corrected_views
where fold = {fold:UInt64} and sign > 0 and not missing and {fold:UInt64} > (select max(number) from applied)
group by project, told;
