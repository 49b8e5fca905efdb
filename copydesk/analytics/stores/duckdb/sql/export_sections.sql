-- The sections of a day as rows. They are counted from visits in files, so the caller counts and passes them.
select
    $day as date, unnest($sections::varchar[]) as section, unnest($human::bigint[]) as human,
    unnest($ai::bigint[]) as ai, unnest($total::bigint[]) as total, unnest($views::bigint[]) as views
