select number, sum(total) as visitors
from firsts
inner join (
    select arrayJoin(range(1, 6)) as number, sipHash64({project:String}, 'source', toUInt8(number)) as scope
) as kinds using (scope)
where project = {project:String} and sort = 5
    and day >= {first:UInt16} and day < {end:UInt16} and prev < {first:UInt16}
group by number;
