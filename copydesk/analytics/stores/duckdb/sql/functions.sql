-- The first day of the interval (day, week or month) that contains a day.
create or replace temp macro interval_start(day, length) as
    if(length = 'day', day, date_diff('day', date '1970-01-01', date_trunc(length, date '1970-01-01' + day::integer)));
