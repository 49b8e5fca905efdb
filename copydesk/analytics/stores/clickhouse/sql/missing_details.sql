-- When these missing pages were last requested by people or AI, and the most frequent referrers of each ('' is none).
select scope, referrer, views, last
from (
    select
        scope, referrer, views, max(last_at) over (partition by scope) as last,
        row_number() over (partition by scope order by referrer = '', views desc, referrer) as place
    from (
        select scope, referrer, sum(n) as views, max(last) as last_at
        from missing_referrers
        where project = {project:String} and day >= {first:UInt16} and day < {end:UInt16}
            and scope in {scopes:Array(UInt64)} and (kind = 1 or bitAnd(kind, {ai:UInt8}) != 0)
        group by scope, referrer
        having views > 0
    )
)
where place <= {referrers:UInt64}
order by scope, place;
