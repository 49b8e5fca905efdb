-- The only pass over all visits: all days of the keys in came, with their classes before this fold and after it.
-- The lowest and the highest key are added so that DuckDB does not compare rows with bounds that exclude hardly any.
create or replace temp table known as
with wanted as (
    select key from came union all values (0::bigint), (9223372036854775807::bigint)
)
select scope, key, day, bit_or(was) as was, bit_or(now) as now
from (
    select scope, key, day, bits as was, bits as now from visits where key in (from wanted)
    union all
    select scope, key, day, 0, bits from came
)
group by all;
