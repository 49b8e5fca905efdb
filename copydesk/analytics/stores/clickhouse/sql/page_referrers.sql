select source_kind, source, uniqExactIf(visitor, visitor != 0 and {with_visitors:Bool}) as visitors, count() as views
from views
where project = {project:String} and path = {path:String} and not missing and kind = 1 and source_kind != 0
    and at >= {first:Int64} and at < {end:Int64}
group by source_kind, source
order by visitors desc, views desc, source, source_kind
limit {limit:UInt64};
