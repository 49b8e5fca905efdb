insert into visits select scope, key, day, now & ~was from affected_visits where now <> was;
