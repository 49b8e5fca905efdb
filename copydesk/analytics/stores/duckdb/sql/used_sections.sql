-- Those of some sections below the first level that contain a stored page or section.
select distinct section
from (
    select unnest(list_transform(
        range(2, least(len(parts), $max_depth) + 1), lambda depth: '/' || array_to_string(parts[1:depth], '/')
    )) as section
    from (
        select list_filter(string_split(split_part(path, '?', 1), '/'), lambda part: part <> '') as parts
        from scopes
        where project = $project and sort in (0, 32)
    )
)
where section in (select unnest($sections::varchar[]));
