delete from visits using scopes
where scopes.id = visits.scope and scopes.project = $project and visits.day in (select day from affected_days)
    and xor(visits.key, scopes.salt) in (select visitor from affected_visitors);
