-- Hashes of 64 bits without a sign become those of 63 that fit a signed number: of a visitor, a salt and hence a key the
-- upper ones, of an event the lower ones, just as they are made now.
alter table scopes alter salt type bigint using (salt >> 1)::bigint;
alter table views alter seq type bigint;
alter table views alter kind type integer;
alter table views alter visitor type bigint using if(visitor = 1, 1, visitor >> 1)::bigint;
alter table events alter id type bigint using (id & 9223372036854775807)::bigint;
alter table visits alter key type bigint using (key >> 1)::bigint;
