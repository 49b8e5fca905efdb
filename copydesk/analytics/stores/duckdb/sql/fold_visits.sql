insert into visits select scope, key, day, now & ~was from known where now <> was;
