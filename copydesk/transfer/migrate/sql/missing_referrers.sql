select projects.name as project, hash as scope, day, moved.kind, referrer, n, last
from missing_referrers as moved
join hashes on hashes.id = moved.scope
join projects on projects.id = moved.project
where true
