-- The kinds of visitor for a visit's class bits: 1 human, 2 AI, 4 either.
create or replace temp macro visitor_kinds(bits, human, ai) as
    if(bits & human <> 0, 1, 0)::utinyint | if(bits & ai <> 0, 2, 0)::utinyint
    | if(bits & (human | ai) <> 0, 4, 0)::utinyint;

-- The first day of the interval (day, week or month) that contains a day.
create or replace temp macro interval_start(day, length) as
    if(length = 'day', day, date_diff('day', date '1970-01-01', date_trunc(length, date '1970-01-01' + day::integer)));
