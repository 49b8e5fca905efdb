-- The days that have raw views or counts, with a fingerprint of each day's raw views and of its reports, and whether
-- all raw views are there. Rows are added up first, so that merging parts changes no fingerprint.
select
    day, if(raw_views = 0, '', concat(toString(raw_views), '-', toString(raw_hash))),
    if(report_rows = 0, '', concat(toString(report_hash), '-', toString({ai:UInt8}))),
    raw_views >= counted_views
from (
    select
        day, sum(raw_views) as raw_views, sum(raw_hash) as raw_hash, sum(report_rows) as report_rows,
        sum(report_hash) as report_hash, sum(counted_views) as counted_views
    from (
        select
            toUInt16(intDiv(at, 86400000)) as day, toInt64(count()) as raw_views,
            sum(cityHash64(path, missing, kind, agent, operator, rule, version, at, visitor, host, referrer))
                as raw_hash,
            toUInt64(0) as report_rows, toUInt64(0) as report_hash, toInt64(0) as counted_views
        from views
        where project = {project:String} and at >= {first:Int64} * 86400000 and at < {end:Int64} * 86400000
        group by day
        union all
        select
            day, 0, 0, count(), sum(cityHash64(1, sort, scope, kind, added)), sumIf(added, sort in (1, 3))
        from (
            select day, sort, scope, kind, sum(n) as added
            from counts
            where project = {project:String} and day >= {first:UInt16} and day < {end:UInt16}
            group by day, sort, scope, kind
            having added != 0
        )
        group by day
        union all
        select day, 0, 0, count(), sum(cityHash64(2, sort, scope, added_human, added_ai, added_total)), 0
        from (
            select day, sort, scope, sum(human) as added_human, sum(ai) as added_ai, sum(total) as added_total
            from firsts
            where project = {project:String} and day >= {first:UInt16} and day < {end:UInt16}
            group by day, sort, scope
            having added_human != 0 or added_ai != 0 or added_total != 0
        )
        group by day
        union all
        select day, 0, 0, count(), sum(cityHash64(3, scope, kind, referrer, added, last_at)), 0
        from (
            select day, scope, kind, referrer, sum(n) as added, max(last) as last_at
            from missing_referrers
            where project = {project:String} and day >= {first:UInt16} and day < {end:UInt16}
            group by day, scope, kind, referrer
            having added != 0
        )
        group by day
    )
    group by day
)
order by day
