-- When these missing pages were last requested by people or AI, and the most frequent referrers of each ('' is none).
with referrers as (
    select scope, referrer, sum(n)::bigint as views, max(last) as last from missing_referrers
    where project = $project and day >= $first and day < $end and scope in (select unnest($scopes::integer[]))
        and kind & (1 | (select ai from projects where id = $project)) <> 0
    group by scope, referrer
),
placed as (
    select
        scope, referrer, views, max(last) over (partition by scope) as last,
        row_number() over (partition by scope order by referrer = '', views desc, referrer) as place
    from referrers
)
select scope, referrer, views, last from placed where place <= $referrers order by scope, place;
