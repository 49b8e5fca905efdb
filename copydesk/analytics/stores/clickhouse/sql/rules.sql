select agent, operator, kind, rule, count() as views
from views
where project = {project:String} and at >= {first:Int64} and at < {end:Int64}
    and (not missing or {missing:Bool})
group by agent, operator, kind, rule
order by views desc, agent, operator, kind, rule
limit {limit:UInt64};
