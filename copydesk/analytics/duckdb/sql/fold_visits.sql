insert into visits select scope, key, day, bits from fresh;
