-- Visitors and views by hour, and in the hour -1 of all hours. visitor = 0 means that the view has no visitor.
select
    if(grouping(hour) = 1, -1, hour) as hour_or_all,
    uniqExactIf(visitor, kind = 1 and visitor != 0), uniqExactIf(visitor, bitAnd(kind, {ai:UInt8}) != 0 and visitor != 0),
    uniqExactIf(visitor, visitor != 0), countIf(kind = 1), countIf(bitAnd(kind, {ai:UInt8}) != 0)
from (
    select intDiv(at, 3600000) as hour, visitor, kind
    from views
    where project = {project:String} and at >= {first:Int64} and at < {end:Int64} and not missing
        and bitAnd(kind, bitOr({ai:UInt8}, 1)) != 0
) as counted_views
group by grouping sets ((hour), ())
order by hour_or_all;
