select agent, operator, kind, uniqExactIf(visitor, visitor != 0 and {with_visitors:Bool}) as visitors, count() as views
from views
where project = {project:String} and path = {path:String} and not missing
    and at >= {first:Int64} and at < {end:Int64}
group by agent, operator, kind
order by visitors desc, views desc, agent, operator, kind
limit {limit:UInt64};
