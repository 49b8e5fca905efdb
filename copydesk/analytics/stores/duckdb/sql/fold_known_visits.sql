-- The only pass over all visits: all days of the keys in new_visits, with their classes before this fold and after it.
-- The lowest and the highest key are added so that DuckDB does not compare rows with bounds that exclude hardly any.
create or replace temp table affected_visits as
with affected_keys as (
    select key from new_visits union all values (0::bigint), (9223372036854775807::bigint)
)
select scope, key, day, bit_or(was) as was, bit_or(now) as now
from (
    select scope, key, day, bits as was, bits as now from visits where key in (from affected_keys)
    union all
    select scope, key, day, 0, bits from new_visits
)
group by all;
