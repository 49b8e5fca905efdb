-- Converts unsigned hashes of 64 bits to 63 bits, which fit a signed integer: the upper 63 bits of visitors, salts and
-- so keys, and the lower 63 bits of events, as new hashes are computed.
alter table scopes alter salt type bigint using (salt >> 1)::bigint;
alter table views alter seq type bigint;
alter table views alter kind type integer;
alter table views alter visitor type bigint using if(visitor = 1, 1, visitor >> 1)::bigint;
alter table events alter id type bigint using (id & 9223372036854775807)::bigint;
alter table visits alter key type bigint using (key >> 1)::bigint;
